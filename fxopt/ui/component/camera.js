// Where the visitor looks: screen = world * zoom + offset, in pixels of the stage.

const [LEAST_ZOOM, MOST_ZOOM] = [0.0005, 4];
const MARGIN = 16;

/**
 * @typedef {[number, number]} Point
 * @typedef {Pick<import("./scene.js").Scene, "width" | "height" | "count" | "boxes" | "center" | "rect">} Seen the part of a scene that the camera asks for
 */

export class Camera {
  constructor() {
    this.x = 0;
    this.y = 0;
    this.zoom = 1;
    /** @type {{ from: number, to: number } | null} the zoom before and after the stage became narrower */
    this.narrowed = null;
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
   * Move the picture as far as it reaches beyond the stage; one that has room in it stays.
   * @param {Seen} scene
   * @param {number} dx in pixels
   * @param {number} dy
   * @param {number} width of the stage, in pixels
   * @param {number} height
   * @returns {boolean} whether it moved
   */
  panBy(scene, dx, dy, width, height) {
    const { x, y } = this;
    this.x = pushed(x, dx, scene.width * this.zoom, width);
    this.y = pushed(y, dy, scene.height * this.zoom, height);
    return this.x !== x || this.y !== y;
  }

  /**
   * Bring a part of the scene into view, moving no more than that takes, and zooming out as far as it can still be read.
   * The whole of it has no wide gap beside, above or below it.
   * @param {Seen} scene
   * @param {[number, number, number, number] | null} part x, y, width, height
   * @param {Point} still the point on the screen that keeps its place, if it can
   * @param {number} width of the stage, in pixels
   * @param {number} height
   * @param {number} scale of the type on the page
   */
  contain(scene, part, still, width, height, scale = 1) {
    if (part) {
      const [x, y, w, h] = part;
      const fitting = Math.min((width - 2 * MARGIN) / w, (height - 2 * MARGIN) / h);
      if (fitting < this.zoom) this.zoomBy(Math.min(1, Math.max(fitting, 0.6 * scale) / this.zoom), still);
      this.x += inward(x * this.zoom + this.x, w * this.zoom, width);
      this.y += inward(y * this.zoom + this.y, h * this.zoom, height);
    }
    this.closeGaps(scene, width, height);
  }

  /**
   * Show what stands at the heights in view across the stage, zooming out as far as it can still be read: for a scene that
   * became much wider, of which a corner would be seen else.
   * @param {Seen} scene
   * @param {number} width of the stage, in pixels
   * @param {number} height
   * @param {number} scale of the type on the page
   */
  gather(scene, width, height, scale = 1) {
    const across = (width - 2 * MARGIN) / (scene.width || 1);
    if (across < this.zoom) this.zoomBy(Math.min(1, Math.max(across, 0.6 * scale) / this.zoom), [width / 2, 0]);
    const centers = [];
    for (let i = 0; i < scene.count; i++) {
      const [x, y] = scene.center(i);
      const down = y * this.zoom + this.y;
      if (down > 0 && down < height) centers.push(x);
    }
    const middle = centers.sort((a, b) => a - b)[centers.length >> 1];
    if (middle !== undefined) this.x = width / 2 - middle * this.zoom;
    this.x += inward(this.x, scene.width * this.zoom, width);
    this.y += inward(this.y, scene.height * this.zoom, height);
  }

  /**
   * Move the whole scene inward where it leaves a wide gap at one side of the stage.
   * @param {Seen} scene
   * @param {number} width of the stage, in pixels
   * @param {number} height
   */
  closeGaps(scene, width, height) {
    if (!width || !height) return; // the stage is not on the page yet
    const [across, down] = [inward(this.x, scene.width * this.zoom, width), inward(this.y, scene.height * this.zoom, height)];
    if (Math.abs(across) > width / 4) this.x += across;
    if (Math.abs(down) > height / 4) this.y += down;
  }

  /**
   * Zoom out where the whole width of the scene had room in a wider stage, as far as it can still be read, and in again
   * where the room is back.
   * @param {Seen} scene
   * @param {number} before the width of the stage, in pixels
   * @param {number} width
   * @param {number} scale of the type on the page
   */
  keepAcross(scene, before, width, scale = 1) {
    const across = (width - 2 * MARGIN) / (scene.width || 1);
    const was = this.narrowed && this.narrowed.to === this.zoom ? this.narrowed.from : this.zoom;
    const hadRoom = was !== this.zoom || scene.width * this.zoom <= before;
    const zoom = Math.min(was, Math.max(across, 0.6 * scale));
    if (!hadRoom || zoom === this.zoom || (zoom > this.zoom && was === this.zoom)) return;
    this.zoomBy(zoom / this.zoom, [width / 2, 0]);
    this.narrowed = { from: was, to: this.zoom };
    if (scene.width * this.zoom <= width - 2 * MARGIN) this.x = (width - scene.width * this.zoom) / 2;
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
   * Bring a box to where it can be seen and read, moving no more than that takes.
   * @param {Seen} scene
   * @param {number} i the box
   * @param {number} width of the stage, in pixels
   * @param {number} height
   */
  reveal(scene, i, width, height) {
    /** @type {Point} */
    const middle = [width / 2, height / 2];
    if (this.zoom < 0.6) {
      this.pin(scene.center(i), middle);
      this.zoomBy(0.9 / this.zoom, middle);
    } else if (!this.shows(scene, i, width, height, 40)) this.pin(scene.center(i), middle);
  }

  /**
   * Return whether a whole box is in view, at least `margin` pixels from each edge of the stage.
   * @param {Seen} scene
   * @param {number} i the box
   * @param {number} width of the stage, in pixels
   * @param {number} height
   */
  shows(scene, i, width, height, margin = 0) {
    const [x, y, w, h] = scene.rect(i);
    const [left, top] = this.toScreen([x, y]);
    const [right, bottom] = this.toScreen([x + w, y + h]);
    return left >= margin && top >= margin && right <= width - margin && bottom <= height - margin;
  }

  /**
   * Return whether the whole picture is in view.
   * @param {Seen} scene
   * @param {number} width of the stage, in pixels
   * @param {number} height
   */
  showsAll(scene, width, height) {
    const [left, top] = this.toScreen([0, 0]);
    const [right, bottom] = this.toScreen([scene.width, scene.height]);
    return left >= 0 && top >= 0 && right <= width && bottom <= height;
  }

  /**
   * Return whether a part of any box is in view.
   * @param {Seen} scene
   * @param {number} width of the stage, in pixels
   * @param {number} height
   */
  showsAny(scene, width, height) {
    const [left, top] = this.toWorld([0, 0]);
    const [right, bottom] = this.toWorld([width, height]);
    for (let i = 0; i < scene.count; i++) {
      const [x, y, w, h] = scene.rect(i);
      if (x < right && y < bottom && x + w > left && y + h > top) return true;
    }
    return false;
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

/**
 * Return where a span begins that was pushed: within its bounds, if it is longer than the room, or back to them.
 * @param {number} at
 * @param {number} by
 * @param {number} size of the span, in pixels
 * @param {number} room
 */
function pushed(at, by, size, room) {
  const other = room - MARGIN - size; // where it begins when it ends at the end of the room
  const [low, high] = [Math.min(MARGIN, other), Math.max(MARGIN, other)];
  if (size <= room - 2 * MARGIN && at >= low && at <= high) return at;
  return Math.min(Math.max(at + by, Math.min(low, at)), Math.max(high, at));
}

/**
 * Return the way that a span has to go to be in the room; one that is longer begins or ends no later than it.
 * @param {number} at
 * @param {number} size
 * @param {number} room
 */
function inward(at, size, room) {
  const other = room - MARGIN - size;
  return Math.min(Math.max(at, Math.min(MARGIN, other)), Math.max(MARGIN, other)) - at;
}

/** @param {Seen} scene @returns {number} */
function topmost(scene) {
  let best = 0;
  for (let i = 1; i < scene.count; i++) if (scene.boxes[4 * i + 1] < scene.boxes[4 * best + 1]) best = i;
  return best;
}
