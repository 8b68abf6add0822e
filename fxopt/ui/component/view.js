// The part of a scene that a pane shows: its camera on a stage of some size.

import { anchorBetween, placeOfAnother } from "./anchors.js";
import { Camera } from "./camera.js";

export class View {
  /** @param {import("./pane.js").Pane} pane */
  constructor(pane) {
    this.pane = pane;
    this.camera = new Camera();
    this.size = [0, 0]; // of the stage, as the camera stands for it: a pane that ends has none any more
    this.homeDone = false;
    this.goal = ""; // the node that the graph was moved to last
  }

  fit() {
    this.camera.fit(this.pane.scene, ...this.pane.stageSize(), this.pane.theme.scale);
    this.pane.draw();
  }

  // A pane of the same model, or the last one, says where to look.
  firstLook() {
    const { pane } = this;
    this.size = pane.stageSize();
    const other = placeOfAnother(pane);
    const stays = other && anchorBetween(other, pane.scene, pane);
    if (!stays) return this.home();
    this.camera.pin(stays.to, stays.screen);
    this.camera.closeGaps(pane.scene, this.size[0], this.size[1]);
    this.homeDone = true;
    if (!this.showsAny()) this.home();
    pane.draw();
  }

  home() {
    const { pane } = this;
    const [width, height] = (this.size = pane.stageSize());
    this.homeDone = width > 0;
    this.camera.home(pane.scene, width, height, pane.theme.scale);
    pane.draw();
  }

  zoom(factor, at) {
    const [width, height] = this.pane.stageSize();
    this.camera.zoomBy(factor, at ?? [width / 2, height / 2]);
    this.pane.draw();
  }

  // Returns whether the picture moved.
  pan(dx, dy) {
    const moved = this.camera.panBy(this.pane.scene, dx, dy, ...this.pane.stageSize());
    if (moved) {
      this.pane.tip.hidden = true; // it tells of a box that has gone from under the pointer
      this.pane.draw();
    }
    return moved;
  }

  // After modules were opened or folded: the outermost of them come into view.
  contain(rect, still) {
    this.camera.contain(this.pane.scene, rect, still, ...this.pane.stageSize(), this.pane.theme.scale);
  }

  // After many modules were opened or folded at once: what is at the same height comes into view.
  gather() {
    this.camera.gather(this.pane.scene, ...this.pane.stageSize(), this.pane.theme.scale);
  }

  reveal(i) {
    this.camera.reveal(this.pane.scene, i, ...this.pane.stageSize());
    this.pane.draw();
  }

  // Bring a point of the picture into view, and only where it is not.
  revealPoint(point) {
    const [width, height] = this.pane.stageSize();
    const [x, y] = this.camera.toScreen(point);
    if (x < 0 || y < 0 || x > width || y > height) this.camera.pin(point, [width / 2, height / 2]);
    this.pane.draw();
  }

  shows(i, margin = 0) {
    return this.camera.shows(this.pane.scene, i, ...this.pane.stageSize(), margin);
  }

  showsAny() {
    return this.camera.showsAny(this.pane.scene, ...this.pane.stageSize());
  }

  resized() {
    if (!this.homeDone) return this.firstLook();
    const { scene, theme } = this.pane;
    const size = this.pane.stageSize();
    const kept = this.keptBox;
    const wasSeen = kept >= 0 && this.camera.shows(scene, kept, this.size[0], this.size[1]);
    const wasWhole = this.camera.showsAll(scene, this.size[0], this.size[1]);
    this.camera.x += (size[0] - this.size[0]) / 2; // what was in the middle stays there
    this.camera.keepAcross(scene, this.size[0], size[0], theme.scale);
    this.size = size;
    if (wasWhole && !this.camera.showsAll(scene, ...size)) this.camera.home(scene, ...size, theme.scale);
    if (wasSeen && !this.shows(kept)) this.camera.contain(scene, scene.rect(kept), [size[0] / 2, size[1] / 2], ...size, theme.scale);
    this.pane.draw();
  }

  // The box that stays in view where the stage becomes smaller: the selected one, else the one that was gone to last.
  get keptBox() {
    const { scene, selected } = this.pane;
    return selected >= 0 ? selected : scene.find(this.goal);
  }

  // What is seen here, for another pane to take up.
  get seen() {
    const { x, y, zoom, narrowed } = this.camera;
    const { subject, scene } = this.pane;
    return { subject, scene, camera: { x, y, zoom, narrowed }, size: this.size };
  }
}
