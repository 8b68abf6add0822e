// Boxes glide from their places in one layout to those in the next.

const MOTION = 220; // ms
const MOST_GLIDING = 3000; // boxes

/**
 * @typedef {import("./scene.js").Scene} Scene
 * @typedef {[number, number, number, number]} Rect left, top, width, height
 * @typedef {{ x: number, y: number, zoom: number }} Look
 */

/**
 * Where the boxes of a new scene were in the old one, seen through the new camera; null where there are too many.
 * @param {Pick<Scene, "names" | "find" | "rect" | "count" | "boxes">} before
 * @param {Pick<Scene, "names" | "find" | "rect" | "count" | "boxes">} scene
 * @param {Look} then the camera as it was in the old one
 * @param {Look} now the camera in the new one
 */
export function placesBefore(before, scene, then, now) {
  if (scene.count > MOST_GLIDING) return null;
  const from = new Float32Array(scene.boxes);
  const ratio = then.zoom / now.zoom;
  for (let i = 0; i < scene.count; i++) {
    const old = before.find(scene.names[i]);
    if (old < 0) continue;
    const [bx, by, bw, bh] = before.rect(old);
    from.set([bx * ratio + (then.x - now.x) / now.zoom, by * ratio + (then.y - now.y) / now.zoom, bw * ratio, bh * ratio], 4 * i);
  }
  return from;
}

export class Motion {
  /** @param {Float32Array} from the places of the boxes before @param {number} start in ms */
  constructor(from, start) {
    this.from = from;
    this.start = start;
    this.progress = 0;
  }

  /** @param {number} now in ms */
  moveOn(now) {
    this.progress = Math.min(1, Math.max(0, (now - this.start) / MOTION));
  }

  get isDone() {
    return this.progress === 1;
  }

  /**
   * Where a box is drawn now, on its way.
   * @param {number} i
   * @param {Rect} rect its place in the end
   * @returns {Rect}
   */
  rect(i, [x, y, w, h]) {
    const done = 1 - (1 - this.progress) ** 3;
    /** @param {number} at @param {number} value */
    const mix = (at, value) => this.from[4 * i + at] + (value - this.from[4 * i + at]) * done;
    return [mix(0, x), mix(1, y), mix(2, w), mix(3, h)];
  }
}
