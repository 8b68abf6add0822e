// A layout of two graphs, seen as the one, as the other, or as both in one picture. What they share has one place in
// all three, so going from one to another moves nothing.

class Picture {
  constructor(payload) {
    this.payload = payload;
    this.scenes = new Map();
  }

  // `side` is "before", "after" or "both"; a layout of one graph looks alike from all sides.
  scene(side) {
    const { sides } = this.payload;
    const key = sides ? side : "";
    let made = this.scenes.get(key);
    if (!made) this.scenes.set(key, (made = new Scene(sides ? seenFrom(this.payload, side) : this.payload)));
    return made;
  }
}

// The payload of one side. `at` has the numbers that its boxes have in the whole, by which marks come.
function seenFrom(payload, side) {
  const { sides } = payload;
  const [gone, made] = sides.boxes.map((of) => new Set(of));
  const unseen = side === "before" ? made : side === "after" ? gone : new Set();
  const told = side === "before" ? {} : sides.retold;
  const at = [...payload.names.keys()].filter((i) => !unseen.has(i));
  const place = new Map(at.map((i, now) => [i, now]));
  const seen = {
    ...payload,
    at,
    caption: sides.captions[{ before: 0, after: 1 }[side] ?? 2],
    names: at.map((i) => payload.names[i]),
    kind: at.map((i) => told[i]?.[0] ?? payload.kind[i]),
    titles: at.map((i) => told[i]?.[1] ?? payload.titles[i]),
    subtitles: at.map((i) => told[i]?.[2] ?? payload.subtitles[i]),
    modules: { table: payload.modules.table, of: at.map((i) => payload.modules.of[i]) },
    boxes: at.flatMap((i) => payload.boxes.slice(4 * i, 4 * i + 4)),
    boxStates: side === "both" ? at.map((i) => (gone.has(i) ? "removed" : made.has(i) ? "created" : "")) : null,
    groups: {},
    ...edgesSeenFrom(payload, side, place),
  };
  for (const [i, [path, members]] of Object.entries(payload.groups)) {
    const now = place.get(Number(i));
    if (now === undefined) continue;
    const later = told[i]?.[3] ?? members;
    seen.groups[now] = [path, side === "both" ? mergedNames(later, members) : later];
  }
  if (unseen.size) seen.clusters = payload.clusters.filter((frame) => !isEmptied(frame, payload.boxes, unseen));
  return seen;
}

function edgesSeenFrom(payload, side, place) {
  const { edges, portals } = payload.sides;
  const [gone, made] = edges.map((of) => new Set(of));
  const unseen = side === "before" ? made : side === "after" ? gone : new Set();
  const seen = { ends: [], curves: [], portals: [], edgeStates: side === "both" ? [] : null };
  payload.curves.forEach((curve, edge) => {
    if (unseen.has(edge)) return;
    seen.ends.push(place.get(payload.ends[2 * edge]), place.get(payload.ends[2 * edge + 1]));
    seen.curves.push(curve);
    seen.edgeStates?.push(gone.has(edge) ? "removed" : made.has(edge) ? "created" : "");
  });
  const hidden = new Set(side === "before" ? portals[1] : side === "after" ? portals[0] : []);
  for (let at = 0; 2 * at < payload.portals.length; at++)
    if (!hidden.has(at)) seen.portals.push(place.get(payload.portals[2 * at]), place.get(payload.portals[2 * at + 1]));
  seen.reads = readsSeenFrom(payload, side, place);
  return seen;
}

// The operands along edges: one that comes otherwise in the other graph is told of the one that is seen.
function readsSeenFrom({ reads, sides: { reread } }, side, place) {
  const own = new Map();
  if (side !== "both")
    for (let at = 0; at < reread.length; at += 4)
      own.set(`${reread[at]} ${reread[at + 1]}`, reread[at + (side === "before" ? 2 : 3)]);
  const seen = [];
  for (let at = 0; at < reads.length; at += 3) {
    const [source, target, text] = reads.slice(at, at + 3);
    const told = own.get(`${source} ${target}`) ?? text;
    if (told && place.has(source) && place.has(target)) seen.push(place.get(source), place.get(target), told);
  }
  return seen;
}

function mergedNames(one, other) {
  return [...new Set([...one.split(" "), ...other.split(" ")])].join(" ");
}

// Whether a frame holds nothing but what is not seen.
function isEmptied([, , , x, y, w, h], boxes, unseen) {
  const holds = (i) => {
    const [left, top] = [boxes[4 * i], boxes[4 * i + 1]];
    return left >= x && top >= y && left <= x + w && top <= y + h;
  };
  if (![...unseen].some(holds)) return false;
  for (let i = 0; 4 * i < boxes.length; i++) if (!unseen.has(i) && holds(i)) return false;
  return true;
}
