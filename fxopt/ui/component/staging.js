// A picture of two graphs at a moment of the rewrite: some sites are done, and the others are as they were before.

/**
 * @typedef {import("./scene.js").Scene} Scene
 * @typedef {import("./marks.js").Mark} Mark
 * @typedef {{told: string, boxes: number[]}} Step words, and the boxes that differ by the step
 * @typedef {Pick<Scene, "count" | "ends" | "boxStates" | "edgeStates">} Both
 * @typedef {{boxStates: string[], edgeStates: string[], boxes: Set<number>, edges: Set<number>, pending: Set<number>}} Moment
 *   the states as they are seen, the boxes and edges that are not there yet, and the boxes whose step is not done
 */

const NEVER = -1;

/**
 * Return the picture after the first `done` steps. What no step has changes with the first one.
 * @param {Both} scene
 * @param {Step[]} steps
 * @param {number} done
 * @returns {Moment}
 */
export function momentOf(scene, steps, done) {
  const stepOf = new Int32Array(scene.count).fill(NEVER);
  steps.forEach(({ boxes }, step) => {
    for (const box of boxes) if (stepOf[box] === NEVER) stepOf[box] = step;
  });
  /** @type {(box: number) => number} */
  const ofBox = (box) => (stepOf[box] === NEVER && scene.boxStates?.[box] ? 0 : stepOf[box]);
  /** @type {Moment} */
  const moment = { boxStates: [], edgeStates: [], boxes: new Set(), edges: new Set(), pending: new Set() };
  for (let box = 0; box < scene.count; box++) {
    const state = scene.boxStates?.[box] ?? "";
    const isPending = ofBox(box) >= done;
    if (isPending) moment.pending.add(box);
    if (isPending && state === "created") moment.boxes.add(box);
    moment.boxStates.push(isPending ? "" : state);
  }
  (scene.edgeStates ?? []).forEach((state, edge) => {
    const step = Math.max(0, ofBox(scene.ends[2 * edge]), ofBox(scene.ends[2 * edge + 1]));
    const isPending = state !== "" && step >= done;
    if (isPending && state === "created") moment.edges.add(edge);
    moment.edgeStates.push(isPending ? "" : state);
  });
  return moment;
}

/**
 * Return the marks at a moment: those of a box whose step is not done tell of no change yet.
 * @param {Map<number, Mark[]>} marks
 * @param {Set<number>} pending
 */
export function marksAt(marks, pending) {
  const left = new Map();
  for (const [box, of] of marks) {
    const seen = pending.has(box) ? of.filter(([kind]) => kind === "matched" || kind === "miss") : of;
    if (seen.length) left.set(box, seen);
  }
  return left;
}

/**
 * Return the rectangle around some boxes; null around none.
 * @param {Pick<Scene, "rect">} scene
 * @param {number[]} boxes
 * @returns {[number, number, number, number] | null}
 */
export function around(scene, boxes) {
  if (!boxes.length) return null;
  const rects = boxes.map((box) => scene.rect(box));
  const [left, top] = [Math.min(...rects.map(([x]) => x)), Math.min(...rects.map(([, y]) => y))];
  const right = Math.max(...rects.map(([x, , w]) => x + w));
  const bottom = Math.max(...rects.map(([, y, , h]) => y + h));
  return [left, top, right - left, bottom - top];
}

/**
 * Return the camera that has a rectangle in the middle, as near as it fits and can be read.
 * @param {[number, number, number, number]} rect
 * @param {number} width of the stage, in pixels
 * @param {number} height
 * @param {number} scale of the type on the page
 */
export function lookingAt([x, y, w, h], width, height, scale) {
  const fits = Math.min((width - 48) / w, (height - 48) / h);
  const zoom = Math.max(0.45 * scale, Math.min(fits, scale));
  return { zoom, x: width / 2 - (x + w / 2) * zoom, y: height / 2 - (y + h / 2) * zoom };
}
