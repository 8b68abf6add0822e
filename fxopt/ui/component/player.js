// Plays the rewrite in a picture of two graphs: from before to after and back, site by site, with the camera on the site
// that changes. It is the browser's alone: nothing is laid out anew, and Python does not hear of it.

import { element } from "./chrome.js";
import { around, lookingAt, marksAt, momentOf } from "./staging.js";

const GLIDE = 420; // ms in which the camera comes to a site, before the site changes
const HOLD = 1500; // ms from one site to the next
const SPEEDS = [1, 2, 0.5];

export class Player {
  constructor(pane) {
    this.pane = pane;
    this.steps = [];
    this.done = 0;
    this.direction = 0; // 1 forward, -1 back, 0 while it rests
    this.speed = SPEEDS[0];
    this.moment = null; // null after the last step: the picture is then as Python says
    this.flight = null;
    this.row = element("div", "fx-play");
    this.row.setAttribute("role", "group");
    this.row.setAttribute("aria-label", "Play the rewrite");
    this.first = this.button("|‹", "The graph before", () => this.goTo(0));
    this.back = this.button("◀", "", () => this.play(-1));
    this.less = this.button("‹", "One site back ( , )", () => this.step(-1));
    this.more = this.button("›", "One site forward ( . )", () => this.step(1));
    this.forth = this.button("▶", "", () => this.play(1));
    this.last = this.button("›|", "The graph after", () => this.goTo(this.steps.length));
    this.pace = this.button("1×", "", () => this.nextSpeed());
    this.told = element("span", "fx-played");
    this.told.setAttribute("aria-live", "polite");
    this.row.append(this.told);
    this.describe();
  }

  button(text, title, act) {
    const made = element("button", "fx-button", text);
    made.type = "button";
    name(made, title);
    made.addEventListener("click", act);
    this.row.append(made);
    return made;
  }

  // The steps of another picture: it is shown as it is after all of them.
  take(steps) {
    this.stop();
    this.steps = steps;
    this.done = steps.length;
    this.settle();
  }

  // The same picture with other marks.
  refresh() {
    if (this.moment) this.settle();
  }

  get isAtWork() {
    return Boolean(this.flight);
  }

  play(direction) {
    if (!this.steps.length) return;
    if (this.direction === direction) return this.stop();
    this.stop();
    const end = direction > 0 ? this.steps.length : 0;
    if (this.done === end) this.goTo(this.steps.length - end);
    this.direction = direction;
    this.describe();
    this.advance();
  }

  advance() {
    this.move(this.direction);
    const isOver = this.done === (this.direction > 0 ? this.steps.length : 0);
    if (isOver) this.stop();
    else this.timer = setTimeout(() => this.advance(), HOLD / this.speed);
  }

  step(by) {
    this.stop();
    this.move(by);
  }

  goTo(done) {
    this.stop();
    this.done = done;
    this.settle();
  }

  stop() {
    clearTimeout(this.timer);
    this.direction = 0;
    this.land();
    this.describe();
  }

  nextSpeed() {
    this.speed = SPEEDS[(SPEEDS.indexOf(this.speed) + 1) % SPEEDS.length];
    this.describe();
  }

  // One site forth or back: the camera comes to it, and then it changes.
  move(by) {
    this.land();
    const to = this.done + by;
    if (to < 0 || to > this.steps.length) return;
    this.done = to;
    const { boxes } = this.steps[by > 0 ? to - 1 : to];
    this.pane.lit = new Set(boxes);
    this.pane.view.goal = this.pane.scene.names[boxes[0]] ?? "";
    this.describe();
    this.flyTo(boxes, () => this.settle());
  }

  flyTo(boxes, then) {
    const { pane } = this;
    const rect = around(pane.scene, boxes);
    const { camera } = pane;
    const [width, height] = pane.stageSize();
    const to = rect && lookingAt(rect, width, height, pane.theme.scale);
    const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.flight = { from: { x: camera.x, y: camera.y, zoom: camera.zoom }, to, start: performance.now(), then };
    if (isCalm || !to || !pane.root.isConnected) this.land();
    else this.fly();
  }

  fly() {
    const { flight, pane } = this;
    if (!flight) return;
    const progress = Math.min(1, ((performance.now() - flight.start) * this.speed) / GLIDE);
    if (progress === 1) return this.land();
    const eased = progress * progress * (3 - 2 * progress);
    const [width, height] = pane.stageSize();
    const middle = (camera) => [(width / 2 - camera.x) / camera.zoom, (height / 2 - camera.y) / camera.zoom];
    const mix = (a, b) => a + (b - a) * eased;
    const zoom = flight.from.zoom * (flight.to.zoom / flight.from.zoom) ** eased;
    const [[x, y], [x2, y2]] = [middle(flight.from), middle(flight.to)];
    pane.camera.zoom = zoom;
    pane.camera.pin([mix(x, x2), mix(y, y2)], [width / 2, height / 2]);
    pane.draw();
    this.frame = requestAnimationFrame(() => this.fly());
  }

  // The flight ends where it leads.
  land() {
    const { flight, pane } = this;
    if (!flight) return;
    cancelAnimationFrame(this.frame);
    this.flight = null;
    if (flight.to) Object.assign(pane.camera, flight.to);
    flight.then();
  }

  settle() {
    const { pane, steps, done } = this;
    this.moment = null;
    if (done < steps.length) {
      const moment = momentOf(pane.scene, steps, done);
      const seen = { boxStates: { value: moment.boxStates }, edgeStates: { value: moment.edgeStates } };
      this.moment = { ...moment, scene: Object.create(pane.scene, seen), marks: marksAt(pane.marks, moment.pending) };
    }
    this.describe();
    pane.draw();
  }

  describe() {
    const { steps, done, direction } = this;
    this.row.hidden = !steps.length;
    const atStart = done === 0;
    const atEnd = done === steps.length;
    this.first.disabled = this.less.disabled = atStart;
    this.last.disabled = this.more.disabled = atEnd;
    this.forth.textContent = direction > 0 ? "❙❙" : "▶";
    this.back.textContent = direction < 0 ? "❙❙" : "◀";
    name(this.forth, direction > 0 ? "Pause (p)" : "Play from before to after (p)");
    name(this.back, direction < 0 ? "Pause" : "Play from after to before");
    this.pace.textContent = `${this.speed}×`;
    name(this.pace, `Speed: ${this.speed} times; the next is ${SPEEDS[(SPEEDS.indexOf(this.speed) + 1) % SPEEDS.length]}`);
    const of = `${done} of ${steps.length}`;
    this.told.textContent = atStart ? `Before · 0 of ${steps.length}` : `${atEnd ? "After · " : ""}${of} · ${steps[done - 1]?.told ?? ""}`;
    this.told.title = this.told.textContent;
  }

  end() {
    clearTimeout(this.timer);
    cancelAnimationFrame(this.frame);
    this.flight = null;
  }
}

function name(button, title) {
  button.title = title;
  button.setAttribute("aria-label", title);
}
