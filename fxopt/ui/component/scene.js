// A layout as the browser uses it: boxes, edges and frames with what is needed to find and draw them.
// Made once for each layout; marks, selection and camera live elsewhere.

import { boundsOf, distanceTo, endsOf, pathOf } from "./curves.js";

export const CONTROL = 15; // side of the small box that folds and unfolds
const FRAME_TITLE = 22; // height of the strip of a frame in which its title stands

/**
 * A layout as it comes from Python (`Layout.payload` in fxopt/view/layout.py), or one side of it.
 * @typedef {object} Payload
 * @property {string} id
 * @property {number} width
 * @property {number} height
 * @property {string} caption
 * @property {string} note
 * @property {[string, string][]} kinds each with its words
 * @property {string[]} names
 * @property {number[]} kind of each box, by its number in `kinds`
 * @property {string[]} titles
 * @property {string[]} subtitles
 * @property {{ table: string[], of: number[] }} modules
 * @property {Record<string, [string, string]>} groups by box: the path of the folded module, and the nodes in it
 * @property {number[]} boxes x, y, width, height of each
 * @property {number[]} ends source and target of each edge
 * @property {number[][]} curves the points of each edge
 * @property {number[]} portals source and target of each
 * @property {(number | string)[]} reads source, target and operands of an edge, one after the other
 * @property {[string, string, number, number, number, number, number][]} clusters path, title, depth, x, y, width, height
 * @property {Sides} [sides]
 * @property {number[] | null} [at]
 * @property {string[] | null} [boxStates]
 * @property {string[] | null} [edgeStates]
 */

/**
 * @typedef {object} Sides what each of two graphs has alone: the numbers of the first, of the second
 * @property {[number[], number[]]} boxes
 * @property {[number[], number[]]} edges
 * @property {[number[], number[]]} portals
 * @property {Record<string, [number, string, string, string]>} retold kind, title, subtitle and nodes in the second graph
 * @property {number[]} [replaced] the old box and the new one of a name that calls something else in the second graph
 * @property {[string, string, string]} captions of the first, the second, and both
 * @property {(number | string)[]} reread source, target, operands in the first and in the second
 */

/** @typedef {[number, number, number, number]} Rect x, y, width, height */

export class Scene {
  /** @param {Payload} payload */
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
    /** @type {<T>() => T[][]} */
    const lists = () => Array.from({ length: this.count }, () => []);
    /** @type {number[][]} */
    this.users = lists();
    /** @type {number[][]} */
    this.inputs = lists();
    /** @type {number[][]} */
    this.edgesOf = lists();
    /** @type {[number, number][][]} */
    this.portalsOf = lists();
    this.ends = payload.ends;
    this.curves = payload.curves;
    this.bounds = new Float32Array(4 * payload.curves.length);
    this.connect(payload);
  }

  /** @param {Payload} payload */
  connect({ ends, curves, portals, reads }) {
    /** @type {Map<string, string>} */
    const told = (this.reads = new Map()); // the operands along an edge, by its ends
    for (let at = 0; at < reads.length; at += 3) told.set(`${reads[at]} ${reads[at + 1]}`, String(reads[at + 2]));
    this.paths = curves.map(pathOf);
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
    /** @type {string[]} by edge */
    this.operands = curves.map((_, edge) => told.get(`${ends[2 * edge]} ${ends[2 * edge + 1]}`) ?? "");
    for (let at = 0; at < portals.length; at += 2) {
      const [source, target] = [portals[at], portals[at + 1]];
      this.users[source].push(target);
      this.inputs[target].push(source);
      this.portalsOf[source].push([source, target]);
      this.portalsOf[target].push([source, target]);
    }
  }

  /**
   * Return a box's number in the whole layout, of which this scene may be a part.
   * @param {number} i
   */
  numberOf(i) {
    return this.at ? this.at[i] : i;
  }

  /** Return the box of a number, -1 for none. @param {number} number @returns {number} */
  placeOf(number) {
    return this.placeAt ? (this.placeAt.get(number) ?? -1) : number < this.count ? number : -1;
  }

  /**
   * Return the box in which a node is seen: its own, or that of the folded module around it; -1 if in none.
   * @param {string} name
   * @returns {number}
   */
  find(name) {
    const own = this.index.get(name);
    if (own !== undefined) return own;
    if (!this.owners) {
      /** @type {Map<string, number>} */
      this.owners = new Map();
      for (const [i, names] of this.members) for (const member of names.split(" ")) this.owners.set(member, i);
    }
    return this.owners.get(name) ?? -1;
  }

  /** Return the name of a node's box as the model has it: that of an old box beside a new one ends with `~`. @param {number} i */
  plainName(i) {
    return this.names[i].replace(/~$/, "");
  }

  /** @param {number} i @returns {Rect} */
  rect(i) {
    const b = this.boxes;
    return [b[4 * i], b[4 * i + 1], b[4 * i + 2], b[4 * i + 3]];
  }

  /** @param {number} i @returns {[number, number]} */
  center(i) {
    const [x, y, w, h] = this.rect(i);
    return [x + w / 2, y + h / 2];
  }

  /** Return the box at a point, the last that was drawn; -1 for none. @param {number} x @param {number} y */
  boxAt(x, y) {
    const b = this.boxes;
    for (let at = b.length - 4; at >= 0; at -= 4)
      if (x >= b[at] && y >= b[at + 1] && x <= b[at] + b[at + 2] && y <= b[at + 1] + b[at + 3]) return at / 4;
    return -1;
  }

  /**
   * Return the edge that comes nearest to a point, if it comes nearer than `reach`; -1 for none.
   * @param {number} x
   * @param {number} y
   * @param {number} reach
   * @param {Set<number>} [unseen] edges that are not drawn
   */
  edgeAt(x, y, reach, unseen) {
    let [best, least] = [-1, reach];
    for (let edge = 0; edge < this.curves.length; edge++) {
      const [left, top, right, bottom] = this.bounds.subarray(4 * edge, 4 * edge + 4);
      if (x < left - reach || x > right + reach || y < top - reach || y > bottom + reach || unseen?.has(edge)) continue;
      const distance = distanceTo(this.curves[edge], x, y);
      if (distance < least) [best, least] = [edge, distance];
    }
    return best;
  }

  /**
   * Return the edges of a box, those to its users first; all edges for no box.
   * @param {number} box or -1
   * @returns {number[]}
   */
  edgesAround(box) {
    if (box < 0) return this.curves.map((_, edge) => edge);
    const edges = this.edgesOf[box];
    return [...edges.filter((edge) => this.ends[2 * edge] === box), ...edges.filter((edge) => this.ends[2 * edge] !== box)];
  }

  /**
   * Return the end of an edge that is nearer to a point than `reach`: 0 for its source, 1 for its target, -1 for neither.
   * @param {number} edge
   * @param {number} x
   * @param {number} y
   * @param {number} reach
   */
  endAt(edge, x, y, reach) {
    const away = endsOf(this.curves[edge]).map(([px, py]) => Math.hypot(px - x, py - y));
    const end = away[0] < away[1] ? 0 : 1;
    return away[end] < reach ? end : -1;
  }

  /**
   * Return the corner of the fold control of a folded module (its box) or of an open one (its frame).
   * @param {string} path
   * @returns {[number, number] | undefined}
   */
  control(path) {
    for (const [i, of] of this.groups) if (of === path) return this.controlOfBox(i);
    const frame = this.frames.find((one) => one.path === path);
    return frame && [frame.x + 5, frame.y + 4];
  }

  /** @param {number} i @returns {[number, number]} */
  controlOfBox(i) {
    const [x, y, w, h] = this.rect(i);
    return [x + w - CONTROL - 6, y + (h - CONTROL) / 2];
  }

  /**
   * Return the path of the module whose control or frame title lies at a point; null for none.
   * @param {number} x
   * @param {number} y
   * @returns {string | null}
   */
  foldAt(x, y) {
    const box = this.boxAt(x, y);
    if (box >= 0) {
      if (!this.groups.has(box)) return null;
      const [left, top] = this.controlOfBox(box);
      const near = x >= left - 3 && x <= left + CONTROL + 3 && y >= top - 3 && y <= top + CONTROL + 3;
      return (near && this.groups.get(box)) || null;
    }
    for (let at = this.frames.length - 1; at >= 0; at--) {
      const f = this.frames[at];
      const reach = Math.min(f.w, 34 + 6.6 * f.title.length);
      if (x >= f.x && x <= f.x + reach && y >= f.y && y <= f.y + FRAME_TITLE) return f.path;
    }
    return null;
  }
}
