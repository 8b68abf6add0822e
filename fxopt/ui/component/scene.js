// A layout as the browser uses it: boxes, edges and frames with what is needed to find and draw them.
// Made once for each layout; marks, selection and camera live elsewhere.

const CONTROL = 15; // side of the small box that folds and unfolds
const FRAME_TITLE = 22; // height of the strip of a frame in which its title stands

class Scene {
  constructor(payload) {
    this.id = payload.id;
    this.width = payload.width;
    this.height = payload.height;
    this.caption = payload.caption;
    this.note = payload.note;
    this.names = payload.names;
    this.count = payload.names.length;
    this.titles = payload.titles;
    this.subtitles = payload.subtitles;
    this.kinds = payload.kind.map((number) => payload.kinds[number][0]);
    this.kindWords = new Map(payload.kinds);
    this.modules = payload.modules.of.map((number) => payload.modules.table[number]);
    this.boxes = Float32Array.from(payload.boxes);
    this.index = new Map(payload.names.map((name, i) => [name, i]));
    this.groups = new Map(Object.entries(payload.groups).map(([i, [path]]) => [Number(i), path]));
    this.members = new Map(Object.entries(payload.groups).map(([i, [, names]]) => [Number(i), names]));
    this.sizes = new Map([...this.members].map(([i, names]) => [i, names.split(" ").length]));
    this.frames = payload.clusters.map(([path, title, depth, x, y, w, h]) => ({ path, title, depth, x, y, w, h }));
    this.at = payload.at ?? null;
    this.placeAt = this.at && new Map(this.at.map((number, i) => [number, i]));
    this.boxStates = payload.boxStates ?? null;
    this.edgeStates = payload.edgeStates ?? null;
    this.fitted = { title: new Array(this.count), subtitle: new Array(this.count) };
    this.connect(payload);
  }

  connect({ ends, curves, portals, reads }) {
    this.reads = new Map(); // the operands along an edge, by its ends
    for (let at = 0; at < reads.length; at += 3) this.reads.set(`${reads[at]} ${reads[at + 1]}`, reads[at + 2]);
    const lists = () => Array.from({ length: this.count }, () => []);
    this.users = lists();
    this.inputs = lists();
    this.edgesOf = lists();
    this.portalsOf = lists();
    this.ends = ends;
    this.curves = curves;
    this.paths = curves.map(pathOf);
    this.bounds = new Float32Array(4 * curves.length);
    this.allEdges = new Path2D();
    for (let edge = 0; edge < curves.length; edge++) {
      const [source, target] = [ends[2 * edge], ends[2 * edge + 1]];
      this.users[source].push(target);
      this.inputs[target].push(source);
      this.edgesOf[source].push(edge);
      this.edgesOf[target].push(edge);
      this.bounds.set(boundsOf(curves[edge]), 4 * edge);
      this.allEdges.addPath(this.paths[edge]);
    }
    this.operands = curves.map((_, edge) => this.reads.get(`${ends[2 * edge]} ${ends[2 * edge + 1]}`) ?? "");
    for (let at = 0; at < portals.length; at += 2) {
      const [source, target] = [portals[at], portals[at + 1]];
      this.users[source].push(target);
      this.inputs[target].push(source);
      this.portalsOf[source].push([source, target]);
      this.portalsOf[target].push([source, target]);
    }
  }

  // A box's number in the whole layout, of which this scene may be a part; and the box of a number, -1 for none.
  numberOf(i) {
    return this.at ? this.at[i] : i;
  }

  placeOf(number) {
    return this.placeAt ? (this.placeAt.get(number) ?? -1) : number < this.count ? number : -1;
  }

  // The box in which a node is seen: its own, or that of the folded module around it; -1 if in none.
  find(name) {
    const own = this.index.get(name);
    if (own !== undefined) return own;
    if (!this.owners) {
      this.owners = new Map();
      for (const [i, names] of this.members) for (const member of names.split(" ")) this.owners.set(member, i);
    }
    return this.owners.get(name) ?? -1;
  }

  rect(i) {
    const b = this.boxes;
    return [b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3]];
  }

  center(i) {
    const [x, y, w, h] = this.rect(i);
    return [x + w / 2, y + h / 2];
  }

  boxAt(x, y) {
    const b = this.boxes;
    for (let at = b.length - 4; at >= 0; at -= 4)
      if (x >= b[at] && y >= b[at + 1] && x <= b[at] + b[at + 2] && y <= b[at + 1] + b[at + 3]) return at / 4;
    return -1;
  }

  // The corner of the fold control of a folded module (its box) or of an open one (its frame).
  control(path) {
    for (const [i, of] of this.groups) if (of === path) return this.controlOfBox(i);
    const frame = this.frames.find((one) => one.path === path);
    return frame && [frame.x + 5, frame.y + 4];
  }

  controlOfBox(i) {
    const [x, y, w, h] = this.rect(i);
    return [x + w - CONTROL - 6, y + (h - CONTROL) / 2];
  }

  // The path of the module whose control or frame title lies at a point.
  foldAt(x, y) {
    const box = this.boxAt(x, y);
    if (box >= 0) {
      if (!this.groups.has(box)) return null;
      const [left, top] = this.controlOfBox(box);
      const near = x >= left - 3 && x <= left + CONTROL + 3 && y >= top - 3 && y <= top + CONTROL + 3;
      return near ? this.groups.get(box) : null;
    }
    for (let at = this.frames.length - 1; at >= 0; at--) {
      const f = this.frames[at];
      const reach = Math.min(f.w, 34 + 6.6 * f.title.length);
      if (x >= f.x && x <= f.x + reach && y >= f.y && y <= f.y + FRAME_TITLE) return f.path;
    }
    return null;
  }
}

function pathOf(points) {
  const path = new Path2D();
  path.moveTo(points[0], points[1]);
  if (points.length < 8) path.lineTo(points[points.length - 2], points[points.length - 1]);
  for (let at = 2; at + 5 < points.length; at += 6)
    path.bezierCurveTo(points[at], points[at + 1], points[at + 2], points[at + 3], points[at + 4], points[at + 5]);
  return path;
}

function boundsOf(points) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = 0; at < points.length; at += 2) {
    left = Math.min(left, points[at]);
    right = Math.max(right, points[at]);
    top = Math.min(top, points[at + 1]);
    bottom = Math.max(bottom, points[at + 1]);
  }
  return [left, top, right, bottom];
}
