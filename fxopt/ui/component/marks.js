// Marks and the critical path, as the boxes of one scene have them. Python tells of boxes by their numbers in the whole
// layout.

/**
 * @typedef {import("./scene.js").Scene} Scene
 * @typedef {[string, number, number]} Mark kind, pass, count
 * @typedef {{boxes: Set<number>, way: number[], edges: number[], portals: [number, number][], told: string}} Path
 */

/**
 * The marks by box. What only one of two graphs has is always told as such.
 * @param {Pick<Scene, "placeOf" | "boxStates">} scene
 * @param {Record<string, Mark[]>} boxes
 * @returns {Map<number, Mark[]>}
 */
export function marksOf(scene, boxes) {
  const marks = new Map();
  for (const [number, of] of Object.entries(boxes)) {
    const i = scene.placeOf(Number(number));
    if (i >= 0) marks.set(i, of);
  }
  scene.boxStates?.forEach((state, i) => {
    const of = marks.get(i) ?? [];
    if (state && !of.some((/** @type {Mark} */ [kind]) => kind === state)) marks.set(i, [...of, [state, -1, 1]]);
  });
  return marks;
}

/** @returns {Path} */
export function noPath() {
  return { boxes: new Set(), way: [], edges: [], portals: [], told: "" };
}

/**
 * The way on which the boxes cost the most: one box after the other, they are its edges.
 * @param {Pick<Scene, "placeOf" | "edgesOf" | "ends" | "portalsOf">} scene
 * @param {{boxes?: number[], told?: string} | null} data
 * @returns {Path}
 */
export function criticalPath(scene, data) {
  const way = (data?.boxes ?? []).map((number) => scene.placeOf(number)).filter((i) => i >= 0);
  const path = { ...noPath(), boxes: new Set(way), way, told: data?.told ?? "" };
  for (let at = 1; at < way.length; at++) {
    const [source, target] = [way[at - 1], way[at]];
    const edge = scene.edgesOf[source].find((one) => scene.ends[2 * one] === source && scene.ends[2 * one + 1] === target);
    if (edge !== undefined) path.edges.push(edge);
    else if (scene.portalsOf[source].some(([a, b]) => a === source && b === target)) path.portals.push([source, target]);
  }
  return path;
}
