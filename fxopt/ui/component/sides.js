// A layout of two graphs, seen as the one, as the other, or as both in one picture. What they share has one place in
// all three, so going from one to another moves nothing.

import { Scene } from "./scene.js";

/**
 * @typedef {import("./scene.js").Payload} Payload
 * @typedef {import("./scene.js").Sides} Both
 * @typedef {"before" | "after" | "both"} Side
 */

/** @type {Side[]} as captions come */
const SIDES = ["before", "after", "both"];

export class Picture {
  /** @param {Payload} payload */
  constructor(payload) {
    this.payload = payload;
    /** @type {Map<string, Scene>} */
    this.scenes = new Map();
  }

  /** Return what is seen from a side; a layout of one graph looks alike from all. @param {Side} side @returns {Scene} */
  scene(side) {
    const { sides } = this.payload;
    const key = sides ? side : "";
    let made = this.scenes.get(key);
    if (!made) this.scenes.set(key, (made = new Scene(sides ? seenFrom(this.payload, side) : this.payload)));
    return made;
  }
}

/**
 * Return the payload of one side. `at` has the numbers that its boxes have in the whole, by which marks come.
 * @param {Payload} payload
 * @param {Side} side
 * @returns {Payload}
 */
export function seenFrom(payload, side) {
  const sides = /** @type {Both} */ (payload.sides);
  const [gone, made] = sides.boxes.map((of) => new Set(of));
  const unseen = side === "before" ? made : side === "after" ? gone : new Set();
  const told = side === "before" ? {} : sides.retold;
  const at = [...payload.names.keys()].filter((i) => !unseen.has(i));
  const place = new Map(at.map((i, now) => [i, now]));
  const renamed = new Map(pairs(sides.replaced ?? [])); // in the first graph, the old box has the name that both have
  /** @type {Payload} */
  const seen = {
    ...payload,
    at,
    caption: sides.captions[SIDES.indexOf(side)],
    names: at.map((i) => payload.names[(side === "before" && renamed.get(i)) || i]),
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

/** @param {Payload} payload @param {Side} side @param {Map<number, number>} place */
function edgesSeenFrom(payload, side, place) {
  const { edges, portals } = /** @type {Both} */ (payload.sides);
  /** @type {(number: number) => number} */
  const placed = (number) => /** @type {number} */ (place.get(number));
  const [gone, made] = edges.map((of) => new Set(of));
  const unseen = side === "before" ? made : side === "after" ? gone : new Set();
  /** @type {Pick<Payload, "ends" | "curves" | "portals" | "reads" | "edgeStates">} */
  const seen = { ends: [], curves: [], portals: [], reads: [], edgeStates: side === "both" ? [] : null };
  payload.curves.forEach((curve, edge) => {
    if (unseen.has(edge)) return;
    seen.ends.push(placed(payload.ends[2 * edge]), placed(payload.ends[2 * edge + 1]));
    seen.curves.push(curve);
    seen.edgeStates?.push(gone.has(edge) ? "removed" : made.has(edge) ? "created" : "");
  });
  const hidden = new Set(side === "before" ? portals[1] : side === "after" ? portals[0] : []);
  for (let at = 0; 2 * at < payload.portals.length; at++)
    if (!hidden.has(at)) seen.portals.push(placed(payload.portals[2 * at]), placed(payload.portals[2 * at + 1]));
  seen.reads = readsSeenFrom(payload, side, place);
  return seen;
}

/**
 * Return the operands along edges: one that comes otherwise in the other graph is told of the one that is seen.
 * @param {Payload} payload
 * @param {Side} side
 * @param {Map<number, number>} place
 */
function readsSeenFrom({ reads, sides }, side, place) {
  const { reread } = /** @type {Both} */ (sides);
  const own = new Map();
  if (side !== "both")
    for (let at = 0; at < reread.length; at += 4)
      own.set(`${reread[at]} ${reread[at + 1]}`, reread[at + (side === "before" ? 2 : 3)]);
  /** @type {(number | string)[]} */
  const seen = [];
  for (let at = 0; at < reads.length; at += 3) {
    const [source, target] = [Number(reads[at]), Number(reads[at + 1])];
    const told = own.get(`${source} ${target}`) ?? reads[at + 2];
    const [from, to] = [place.get(source), place.get(target)];
    if (told && from !== undefined && to !== undefined) seen.push(from, to, told);
  }
  return seen;
}

/** @param {number[]} flat @returns {[number, number][]} */
function pairs(flat) {
  return Array.from({ length: flat.length / 2 }, (_, at) => [flat[2 * at], flat[2 * at + 1]]);
}

/** @param {string} one @param {string} other */
function mergedNames(one, other) {
  return [...new Set([...one.split(" "), ...other.split(" ")])].join(" ");
}

/**
 * Return whether a frame holds unseen boxes alone.
 * @param {Payload["clusters"][number]} frame
 * @param {number[]} boxes
 * @param {Set<number>} unseen
 */
function isEmptied([, , , x, y, w, h], boxes, unseen) {
  /** @type {(i: number) => boolean} */
  const holds = (i) => {
    const [left, top] = [boxes[4 * i], boxes[4 * i + 1]];
    return left >= x && top >= y && left <= x + w && top <= y + h;
  };
  if (![...unseen].some(holds)) return false;
  for (let i = 0; 4 * i < boxes.length; i++) if (!unseen.has(i) && holds(i)) return false;
  return true;
}
