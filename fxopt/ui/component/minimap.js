// The whole graph beside the stage, with marks and the part in view. Tall graphs have it as a column at the right,
// wide ones as a strip below, so it covers neither boxes nor buttons. A graph that fits on the stage has none, nor has a
// narrow pane, such as each of two side by side on a window of 1280 pixels: there the boxes need the width.

import { element } from "./chrome.js";
import { sizeCanvas } from "./draw.js";

const NARROW = 360; // CSS pixels

export class Minimap {
  constructor(pane) {
    this.pane = pane;
    this.canvas = element("canvas", "fx-map");
    this.canvas.setAttribute("aria-hidden", "true");
    this.picture = document.createElement("canvas");
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this.go(event);
    });
    this.canvas.addEventListener("pointermove", (event) => event.buttons && this.go(event));
  }

  // Decides from the size of scene and pane where the map stands, before the stage is measured.
  arrange(scene, width, height) {
    const fits = Math.min(width / scene.width, height / scene.height) >= 0.6;
    const tall = scene.height / height > scene.width / width;
    this.pane.root.dataset.map = fits || width < NARROW ? "none" : tall ? "right" : "below";
    this.stale = true;
  }

  scale() {
    const { scene } = this.pane;
    const [width, height] = [this.canvas.clientWidth - 8, this.canvas.clientHeight - 8];
    // A transformer is twenty times as tall as wide: stretched, its columns can still be told apart.
    const x = Math.min(width / scene.width, (height / scene.height) * 6);
    const y = Math.min(height / scene.height, (width / scene.width) * 6);
    return { x, y, left: 4 + (width - scene.width * x) / 2, top: 4 + (height - scene.height * y) / 2 };
  }

  go(event) {
    const { pane } = this;
    const place = this.canvas.getBoundingClientRect();
    const at = this.scale();
    const x = (event.clientX - place.left - at.left) / at.x;
    const y = (event.clientY - place.top - at.top) / at.y;
    const [width, height] = pane.stageSize();
    const fitsAcross = pane.scene.width * pane.camera.zoom <= width;
    const fitsDown = pane.scene.height * pane.camera.zoom <= height;
    const [cx, cy] = pane.camera.toWorld([width / 2, height / 2]);
    pane.camera.pin([fitsAcross ? cx : x, fitsDown ? cy : y], [width / 2, height / 2]);
    pane.draw();
  }

  paint() {
    const { pane, canvas, picture } = this;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (pane.root.dataset.map === "none" || !width || !height) return;
    const ratio = devicePixelRatio || 1;
    const at = this.scale();
    if (this.stale || picture.width !== Math.round(width * ratio) || picture.height !== Math.round(height * ratio)) {
      this.paintPicture(at, width, height, ratio);
      this.stale = false;
    }
    sizeCanvas(canvas, width, height, ratio);
    const context = canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, canvas.width, canvas.height);
    context.drawImage(picture, 0, 0);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const [stageWidth, stageHeight] = pane.stageSize();
    const [x0, y0] = pane.camera.toWorld([0, 0]);
    const [x1, y1] = pane.camera.toWorld([stageWidth, stageHeight]);
    const left = Math.max(1, at.left + x0 * at.x);
    const top = Math.max(1, at.top + y0 * at.y);
    const right = Math.min(width - 1, at.left + x1 * at.x);
    const bottom = Math.min(height - 1, at.top + y1 * at.y);
    context.beginPath();
    context.roundRect(left, top, Math.max(6, right - left), Math.max(6, bottom - top), 3);
    context.fillStyle = pane.theme.resolve("color-mix(in oklab, var(--fx-accent) 10%, transparent)");
    context.fill();
    context.lineWidth = 1.5;
    context.strokeStyle = pane.theme.accent;
    context.stroke();
  }

  // The critical path, from box to box.
  paintWay(at, context) {
    const { scene, theme, path } = this.pane;
    const line = new Path2D();
    path.way.forEach((i, number) => {
      const [x, y] = scene.center(i);
      line[number ? "lineTo" : "moveTo"](at.left + x * at.x, at.top + y * at.y);
    });
    context.globalAlpha = 1;
    for (const [color, width] of [[theme.path, 4], [theme.back, 1.5]]) {
      context.strokeStyle = color;
      context.lineWidth = width;
      context.stroke(line);
    }
  }

  paintPicture(at, width, height, ratio) {
    const { pane, picture } = this;
    const { scene, theme, marks } = pane;
    sizeCanvas(picture, width, height, ratio);
    const context = picture.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    for (const marked of [false, true]) {
      for (let i = 0; i < scene.count; i++) {
        const of = marks.get(i);
        if (Boolean(of) !== marked) continue;
        const [x, y, w, h] = scene.rect(i);
        context.globalAlpha = marked ? 1 : marks.size && pane.dim ? 0.35 : 0.8;
        context.fillStyle = marked ? pane.markColor(of[0]) : theme.edge(scene.kinds[i]);
        const [wide, high] = [Math.max(marked ? 4 : 1, w * at.x), Math.max(marked ? 3 : 1, h * at.y)];
        context.fillRect(at.left + x * at.x, at.top + y * at.y, wide, high);
      }
    }
    this.paintWay(at, context);
    if (pane.selected < 0) return;
    const [x, y, w, h] = scene.rect(pane.selected);
    context.globalAlpha = 1;
    context.fillStyle = theme.chosen;
    const [wide, high] = [Math.max(6, w * at.x), Math.max(4, h * at.y)];
    context.fillRect(at.left + x * at.x, at.top + y * at.y, wide, high);
  }
}
