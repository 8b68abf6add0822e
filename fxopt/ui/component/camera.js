// Where the visitor looks: screen = world * zoom + offset, in pixels of the stage.

const [LEAST_ZOOM, MOST_ZOOM] = [0.0005, 4];
const MARGIN = 16;

/**
 * @typedef {[number, number]} Point
 * @typedef {Pick<import("./scene.js").Scene, "width" | "height" | "count" | "boxes" | "center">} Seen the part of a scene that the camera asks for
 */

export class Camera {
  constructor() {
    this.x = 0;
    this.y = 0;
    this.zoom = 1;
  }

  /** @param {Point} world @returns {Point} */
  toScreen([x, y]) {
    return [x * this.zoom + this.x, y * this.zoom + this.y];
  }

  /** @param {Point} screen @returns {Point} */
  toWorld([x, y]) {
    return [(x - this.x) / this.zoom, (y - this.y) / this.zoom];
  }

  /** @param {number} factor @param {Point} screen the point that keeps its place */
  zoomBy(factor, [x, y]) {
    const zoom = Math.min(MOST_ZOOM, Math.max(LEAST_ZOOM, this.zoom * factor));
    const ratio = zoom / this.zoom;
    this.x = x - (x - this.x) * ratio;
    this.y = y - (y - this.y) * ratio;
    this.zoom = zoom;
  }

  /**
   * Move so that a world point stands at a screen point.
   * @param {Point} world
   * @param {Point} screen
   */
  pin([wx, wy], [sx, sy]) {
    this.x = sx - wx * this.zoom;
    this.y = sy - wy * this.zoom;
  }

  /**
   * Bring a box to where it can be seen and read, with as much of the scene around it as fits.
   * @param {Seen} scene
   * @param {number} i the box
   * @param {number} width of the stage, in pixels
   * @param {number} height
   * @param {number} scale
   */
  goTo(scene, i, width, height, scale = 1) {
    const [x, y] = scene.center(i);
    const across = (width - 2 * MARGIN) / (scene.width || 1); // the zoom at which all of its width is seen
    const isFar = this.zoom < 0.6 * scale;
    if (isFar || this.zoom > across) this.zoom = Math.max(0.6 * scale, Math.min(across, isFar ? 0.9 * scale : this.zoom));
    this.x = width / 2 - x * this.zoom;
    const [wide, reach] = [scene.width * this.zoom, 2 * MARGIN + 40];
    const top = this.toScreen([x, y])[1];
    if (wide <= width - 2 * MARGIN) this.x = (width - wide) / 2;
    else this.x = Math.min(MARGIN, Math.max(this.x, width - MARGIN - wide));
    if (top < reach || top > height - reach) this.y = height / 2 - y * this.zoom;
  }

  /**
   * Show the whole scene, no larger than it reads well.
   * @param {Seen} scene
   * @param {number} width of the stage, in pixels
   * @param {number} height
   * @param {number} scale of the type on the page, which a projector has large
   */
  fit(scene, width, height, scale = 1) {
    const [w, h] = [scene.width || 1, scene.height || 1];
    this.zoom = Math.max(LEAST_ZOOM, Math.min((width - 2 * MARGIN) / w, (height - 2 * MARGIN) / h, 1.25 * scale));
    this.x = (width - w * this.zoom) / 2;
    this.y = (height - h * this.zoom) / 2;
  }

  /**
   * Take the first look: all of it where that can be read, else the beginning at a readable size.
   * @param {Seen} scene
   * @param {number} width
   * @param {number} height
   * @param {number} scale
   */
  home(scene, width, height, scale = 1) {
    this.fit(scene, width, height, scale);
    if (this.zoom >= 0.6 * scale || !scene.count) return;
    this.zoom = Math.min(scale, Math.max(0.6 * scale, (width - 2 * MARGIN) / (scene.width || 1)));
    const [w, h] = [scene.width * this.zoom, scene.height * this.zoom];
    const start = width / 2 - scene.center(topmost(scene))[0] * this.zoom;
    // A wide picture is moved to where it begins, but not so far that its own edge leaves a gap.
    this.x = w > width - 2 * MARGIN ? Math.min(MARGIN, Math.max(start, width - MARGIN - w)) : (width - w) / 2;
    this.y = Math.max(MARGIN, (height - h) / 2);
  }
}

/** @param {Seen} scene @returns {number} */
function topmost(scene) {
  let best = 0;
  for (let i = 1; i < scene.count; i++) if (scene.boxes[4 * i + 1] < scene.boxes[4 * best + 1]) best = i;
  return best;
}
