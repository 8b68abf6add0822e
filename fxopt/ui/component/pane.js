// One graph on the page: its scene, camera, selection and marks, and what the visitor does with them.
//
// Acts of the visitor are all that is sent to Python (acts.js). The viewport stays in the browser.

import { Acts } from "./acts.js";
import { anchorBetween, placeOfAnother } from "./anchors.js";
import { SIGNS } from "./boxes.js";
import { Camera } from "./camera.js";
import { Chrome, element, MARK_WORDS, Search } from "./chrome.js";
import { Word } from "./foreseen.js";
import { listenToPointer, pressed } from "./input.js";
import { light, linkedTo, shareCamera, takeRelated } from "./links.js";
import { Minimap } from "./minimap.js";
import { paint } from "./paint.js";
import { CONTROL } from "./scene.js";
import { fxopt } from "./shared.js";
import { STYLES } from "./styles.js";
import { Theme } from "./theme.js";

const MOTION = 220; // ms in which boxes glide to their places in a new layout
const PATIENCE = 5000; // ms after which a module that was to be opened can be tried again
const KEY_DELAY = 150; // ms that arrow keys must rest before Python hears of the selection

export class Pane {
  constructor(parent) {
    this.root = element("div", "fx");
    this.root.dataset.map = "none";
    this.camera = new Camera();
    this.marks = new Map();
    this.styles = [];
    this.unseen = 0;
    this.size = [0, 0]; // of the stage, as the camera stands for it: a pane that ends has none any more
    this.lit = new Set(); // boxes that belong to what is pointed at or selected
    this.families = new Map();
    this.bars = {}; // costs by the numbers of the whole layout: [share of the largest, in words]
    this.at = -1;
    this.selected = -1; // a box
    this.selectedName = null; // what was selected, also where this picture has no box for it
    this.selectedFrame = null;
    this.nearSelected = new Set();
    this.sent = [];
    this.acts = new Acts(); // each is what was done, and to which name
    this.path = { boxes: new Set(), way: [], edges: [], portals: [], told: "" }; // the way on which the boxes cost the most
    this.legend = []; // marks with their counts in words, as Python gives them
    this.became = []; // pairs of boxes: of a node that is gone, and of one that does its work
    this.moves = new Map(); // the moves that Python asked for, by key, and whether each is done
    this.scene = null;
    this.word = new Word(this);
    this.motion = null;
    this.search = new Search(this);
    this.chrome = new Chrome(this);
    this.map = new Minimap(this);
    this.buildStage();
    const middle = element("div", "fx-middle");
    middle.append(this.stage, this.map.canvas);
    this.root.append(this.chrome.bar, middle, this.chrome.foot);
    this.sheet = element("style", "", STYLES);
    parent.append(this.sheet, this.root);
    this.theme = new Theme(this.root);
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(middle);
    this.middle = middle;
    document.fonts?.ready.then(() => this.fontsCame());
  }

  buildStage() {
    this.stage = element("div", "fx-stage");
    this.stage.tabIndex = 0;
    this.stage.setAttribute("role", "listbox");
    this.canvas = element("canvas", "fx-canvas");
    this.canvas.setAttribute("aria-hidden", "true");
    this.option = element("div", "fx-spoken", "No node selected");
    this.option.id = "fx-option";
    this.option.setAttribute("role", "option");
    this.option.setAttribute("aria-selected", "false");
    this.tip = element("div", "fx-tip");
    this.tip.hidden = true;
    this.tip.setAttribute("aria-hidden", "true");
    this.stage.append(this.canvas, this.option, this.tip);
    this.context = this.canvas.getContext("2d");
    listenToPointer(this);
    this.stage.addEventListener("keydown", (event) => pressed(this, event));
  }

  // --- what Python says -----------------------------------------------------------------------------------

  update(data, setState, scene) {
    this.setState = setState;
    if (!this.word.hear(data)) return;
    this.show(data, scene);
  }

  show(data, scene) {
    this.acts.heard(data.heard ?? 0);
    this.key = data.key;
    this.dim = Boolean(data.dim);
    this.foldable = data.foldable ?? true;
    this.link = data.link ?? null;
    this.title = data.title ?? "Graph";
    this.note = data.note ?? "";
    this.legend = data.legend ?? [];
    this.became = (data.became ?? []).map((pair) => pair.map((number) => scene.placeOf(number)));
    takeRelated(this, data.related ?? []);
    this.bars = data.bars ?? {};
    this.root.style.height = data.height ?? "600px";
    this.readTheme();
    const isNew = scene !== this.scene;
    const look = isNew ? this.adopt(scene, data.subject ?? "") : null;
    this.stage.setAttribute(
      "aria-label",
      `${this.title}: ${scene.caption}. Up and down follow the data, left and right go along a row, ` +
        "Enter opens or closes a module, slash finds, Space shows everything.",
    );
    this.takePath(data.path ?? null, isNew);
    this.takeMarks(data.marks ?? {}, isNew);
    look?.(); // now that the legend, which takes room from the stage, is there
    this.takeSelection(data.selected ?? null);
    this.takeMove(data.goneTo ?? ["0", "", "", true]);
    this.speak();
    this.paint(); // not in the next frame, before which the browser still draws the rest of the page
  }

  adopt(scene, subject) {
    const before = this.scene;
    const stays = before && subject === this.subject ? anchorBetween(before, scene, this) : null;
    const from = stays ? this.positionsFor(before, scene, stays) : null;
    if (subject !== this.subject) this.moves.clear();
    this.subject = subject;
    this.scene = scene;
    this.pending = null;
    this.at = -1;
    this.lit = new Set();
    this.tip.hidden = true;
    const box = this.middle.getBoundingClientRect();
    this.map.arrange(scene, box.width, box.height);
    this.choose(this.selectedName === null ? -1 : scene.find(this.selectedName));
    this.search.again();
    this.option.setAttribute("aria-setsize", scene.count);
    return () => {
      if (!stays) {
        if (this.selected < 0) this.selectedName = null;
        return this.firstLook();
      }
      this.camera.pin(stays.to, stays.screen);
      if (!this.anythingInView()) this.home();
      else this.glide(from);
    };
  }

  takeMarks(data, isNew) {
    const key = JSON.stringify([data, this.dim, this.note, this.legend, this.became]);
    if (key !== this.marksKey || isNew) {
      this.marksKey = key;
      this.marks = this.marksOf(data.boxes ?? {});
      this.styles = data.styles ?? [];
      this.unseen = data.unseen ?? 0;
      this.map.stale = true;
      this.chrome.describe();
      this.speak();
    }
  }

  // The boxes of a way come by their numbers in the whole layout; one after the other, they are its edges.
  takePath(data, isNew) {
    const key = JSON.stringify(data);
    if (key === this.pathKey && !isNew) return;
    this.pathKey = key;
    const { scene } = this;
    const way = (data?.boxes ?? []).map((number) => scene.placeOf(number)).filter((i) => i >= 0);
    this.path = { boxes: new Set(way), way, edges: [], portals: [], told: data?.told ?? "" };
    for (let at = 1; at < way.length; at++) {
      const [source, target] = [way[at - 1], way[at]];
      const edge = scene.edgesOf[source].find((one) => scene.ends[2 * one] === source && scene.ends[2 * one + 1] === target);
      if (edge !== undefined) this.path.edges.push(edge);
      else if (scene.portalsOf[source].some(([a, b]) => a === source && b === target)) this.path.portals.push([source, target]);
    }
    this.marksKey = ""; // the legend tells of both
    this.map.stale = true;
  }

  // Marks come by the numbers of the whole layout. What only one of two graphs has is always told as such.
  marksOf(boxes) {
    const { scene } = this;
    const marks = new Map();
    for (const [number, of] of Object.entries(boxes)) {
      const i = scene.placeOf(Number(number));
      if (i >= 0) marks.set(i, of);
    }
    scene.boxStates?.forEach((state, i) => {
      const of = marks.get(i) ?? [];
      if (state && !of.some(([kind]) => kind === state)) marks.set(i, [...of, [state, -1, 1]]);
    });
    return marks;
  }

  // What Python says is selected. It may be the echo of a click, which must not undo a later one.
  takeSelection(name) {
    if (name === this.told) return;
    this.told = name;
    const echo = this.sent.indexOf(name);
    if (echo >= 0) {
      this.sent.splice(0, echo + 1);
      return;
    }
    this.sent = [];
    this.selectedName = name;
    const i = name === null ? -1 : this.scene.find(name);
    if (i === this.selected) return;
    this.choose(i);
    if (i >= 0 && !this.isInView(i)) this.reveal(i);
  }

  // Move to where Python says, once; and once more if the picture that it is about comes later.
  takeMove([key, name, told, isSettled]) {
    const { moves, scene } = this;
    if (key === "0" || moves.get(key)) return;
    const i = scene.find(name);
    moves.set(key, isSettled);
    if (told) this.chrome.say(told);
    if (i < 0) return;
    this.camera.goTo(scene, i, ...this.stageSize(), this.theme.scale);
    this.draw();
  }

  // --- selection ------------------------------------------------------------------------------------------

  // The box that is pointed at, or -1.
  get hovered() {
    return this.at;
  }

  set hovered(i) {
    if (i === this.at) return;
    this.at = i;
    light(this);
  }

  choose(i) {
    this.selected = i;
    light(this);
    // A folded module that was selected and then opened is seen as its frame.
    const path = i < 0 && this.selectedName?.startsWith("@") ? this.selectedName.slice(1) : null;
    this.selectedFrame = this.scene.frames.find((frame) => frame.path === path) ?? null;
    this.nearSelected = i < 0 ? new Set() : new Set([...this.scene.inputs[i], ...this.scene.users[i]]);
    this.map.stale = true;
    this.speak();
  }

  // The visitor goes to a node that a folded module hides; Python opens what is needed.
  goInto(name) {
    this.selectedName = name;
    this.choose(this.scene.find(name));
    this.reveal(this.selected);
    clearTimeout(this.timer);
    this.sent.push(name);
    this.tell("reveal", name);
  }

  // The visitor selects; `when` says whether Python hears "now" or after the keys have come to "rest".
  select(i, when) {
    const name = i < 0 ? null : this.scene.names[i];
    this.selectedName = name;
    this.choose(i);
    this.draw();
    clearTimeout(this.timer);
    const tell = () => {
      this.sent.push(name);
      this.tell("select", name);
    };
    if (when === "rest") this.timer = setTimeout(tell, KEY_DELAY);
    else tell();
    for (const other of linkedTo(this)) other.follow(name);
  }

  tell(what, name) {
    if (!this.acts.isFull) this.setState("events", this.acts.add(what, name));
  }

  follow(name) {
    this.selectedName = name;
    const i = name === null ? -1 : this.scene.find(name);
    this.choose(i);
    // Another picture may need to move to where its own box is; in the same one, both look at one place anyway.
    const [shown] = i >= 0 ? [i] : this.lit;
    if (shown !== undefined && !this.isInView(shown)) this.reveal(shown);
    this.draw();
  }

  toggle(path) {
    if (!this.foldable || this.pending) return;
    this.pending = path;
    this.tell("fold", path);
    this.draw();
    // Python may have reasons of its own not to answer with a new layout.
    clearTimeout(this.patience);
    this.patience = setTimeout(() => {
      this.pending = null;
      this.draw();
    }, PATIENCE);
  }

  speak() {
    const { scene, selected: i, option } = this;
    option.setAttribute("aria-selected", String(i >= 0));
    if (i < 0) {
      const frame = this.selectedFrame;
      option.textContent = frame ? `${frame.title}, open` : "No node selected";
      option.setAttribute("aria-selected", String(Boolean(frame)));
      if (frame) this.stage.setAttribute("aria-activedescendant", option.id);
      else this.stage.removeAttribute("aria-activedescendant");
      return;
    }
    // What a preview would do is told by the line above the passes.
    const marks = (this.marks.get(i) ?? [])
      .filter((mark) => !mark.ghost)
      .map(([kind, pass]) => `${kind in SIGNS ? "" : (this.styles[pass]?.[0] ?? "")} ${MARK_WORDS[kind]}`);
    option.textContent = [
      scene.titles[i],
      scene.subtitles[i],
      scene.modules[i] && `in ${scene.modules[i]}`,
      this.bars[scene.numberOf(i)]?.[1],
      this.path.boxes.has(i) && "on the critical path",
      `${scene.inputs[i].length} inputs`,
      `${scene.users[i].length} users`,
      ...marks,
    ]
      .filter(Boolean)
      .join(", ");
    option.setAttribute("aria-posinset", i + 1);
    this.stage.setAttribute("aria-activedescendant", option.id);
  }

  // --- camera ---------------------------------------------------------------------------------------------

  /** @returns {[number, number]} width and height, in pixels */
  stageSize() {
    return [this.stage.clientWidth, this.stage.clientHeight];
  }

  fit() {
    this.camera.fit(this.scene, ...this.stageSize(), this.theme.scale);
    this.draw();
  }

  firstLook() {
    this.size = this.stageSize();
    const other = placeOfAnother(this);
    const stays = other && anchorBetween(other, this.scene, this);
    if (!stays) return this.home();
    this.camera.pin(stays.to, stays.screen);
    this.homeDone = true;
    if (!this.anythingInView()) this.home();
    this.draw();
  }

  home() {
    const [width, height] = (this.size = this.stageSize());
    this.homeDone = width > 0;
    this.camera.home(this.scene, width, height, this.theme.scale);
    this.draw();
  }

  zoom(factor, at) {
    const [width, height] = this.stageSize();
    this.camera.zoomBy(factor, at ?? [width / 2, height / 2]);
    this.draw();
  }

  // Bring a box to where it can be seen and read, moving no more than that takes.
  reveal(i) {
    const [width, height] = this.stageSize();
    /** @type {[number, number]} */
    const middle = [width / 2, height / 2];
    if (this.camera.zoom < 0.6) {
      this.camera.pin(this.scene.center(i), middle);
      this.camera.zoomBy(0.9 / this.camera.zoom, middle);
    } else if (!this.isInView(i, 40)) this.camera.pin(this.scene.center(i), middle);
    this.draw();
  }

  isInView(i, margin = 0) {
    const [width, height] = this.stageSize();
    const [x, y, w, h] = this.scene.rect(i);
    const [left, top] = this.camera.toScreen([x, y]);
    const [right, bottom] = this.camera.toScreen([x + w, y + h]);
    return left >= margin && top >= margin && right <= width - margin && bottom <= height - margin;
  }

  anythingInView() {
    const [width, height] = this.stageSize();
    const [left, top] = this.camera.toWorld([0, 0]);
    const [right, bottom] = this.camera.toWorld([width, height]);
    for (let i = 0; i < this.scene.count; i++) {
      const [x, y, w, h] = this.scene.rect(i);
      if (x < right && y < bottom && x + w > left && y + h > top) return true;
    }
    return false;
  }

  // --- drawing --------------------------------------------------------------------------------------------

  draw() {
    if (this.frame || !this.scene) return;
    this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    if (this.motion) this.motion.progress = Math.min(1, (performance.now() - this.motion.start) / MOTION);
    paint(this.context, this);
    this.map.paint();
    shareCamera(this);
    if (this.motion?.progress === 1) this.motion = null;
    if (this.motion) this.draw();
  }

  // Where the boxes of a new scene were in the old one, seen through the new camera.
  positionsFor(before, scene, { screen, to }) {
    if (matchMedia("(prefers-reduced-motion: reduce)").matches || scene.count > 3000) return null;
    const from = new Float32Array(scene.boxes);
    const { zoom, x, y } = this.camera;
    const [left, top] = [screen[0] - to[0] * zoom, screen[1] - to[1] * zoom];
    for (let i = 0; i < scene.count; i++) {
      const old = before.find(scene.names[i]);
      if (old < 0) continue;
      const [bx, by, bw, bh] = before.rect(old);
      from.set([bx + (x - left) / zoom, by + (y - top) / zoom, bw, bh], 4 * i);
    }
    return from;
  }

  glide(from) {
    this.motion = from && { from, start: performance.now(), progress: 0 };
  }

  // Where a box is drawn now: on its way, while a new layout glides into place.
  shownRect(i) {
    const [x, y, w, h] = this.scene.rect(i);
    if (!this.motion) return [x, y, w, h];
    const { from, progress } = this.motion;
    const done = 1 - (1 - progress) ** 3;
    const mix = (at, value) => from[4 * i + at] + (value - from[4 * i + at]) * done;
    return [mix(0, x), mix(1, y), mix(2, w), mix(3, h)];
  }

  markColor([kind, pass], style = this.styles[pass]) {
    if (kind in SIGNS) return this.theme[kind];
    return this.theme.mark(style?.[2] ?? "gray");
  }

  // Colors and type. With type of another size, as on a projector, the picture is seen from as much nearer.
  readTheme() {
    const { scale } = this.theme;
    if (!this.theme.read()) return;
    this.map.stale = true;
    if (this.scene && scale !== this.theme.scale) this.zoom(this.theme.scale / scale, [this.stageSize()[0] / 2, 0]);
  }

  resized() {
    // What is taken off the page, or hidden on it, has neither a size nor a style.
    if (!this.scene || !this.root.clientWidth) return;
    this.readTheme();
    const box = this.middle.getBoundingClientRect();
    this.map.arrange(this.scene, box.width, box.height);
    if (!this.homeDone) return this.firstLook();
    const size = this.stageSize();
    this.camera.x += (size[0] - this.size[0]) / 2; // what was in the middle stays there
    this.size = size;
    this.draw();
  }

  fontsCame() {
    if (this.scene) this.scene.fitted = { title: [], subtitle: [] };
    this.draw();
  }

  // What is seen here, for another pane to take up.
  view() {
    const { subject, scene, camera } = this;
    const { x, y, zoom } = camera;
    return { subject, scene, camera: { x, y, zoom }, size: this.size };
  }

  // --- for tests: state to wait for, and where to click ------------------------------------------------------

  get ready() {
    return Boolean(this.scene) && !this.frame && !this.motion && !this.pending;
  }

  get layoutId() {
    return this.scene?.id ?? null;
  }

  nodeRect(name) {
    return this.pageRect(this.scene.rect(this.scene.index.get(name)));
  }

  controlRect(path) {
    const [x, y] = this.scene.control(path);
    return this.pageRect([x, y, CONTROL, CONTROL]);
  }

  pageRect([x, y, w, h]) {
    const place = this.stage.getBoundingClientRect();
    const [left, top] = this.camera.toScreen([x, y]);
    const { zoom } = this.camera;
    return { x: place.left + left, y: place.top + top, width: w * zoom, height: h * zoom };
  }

  end() {
    if (this.scene) fxopt.left = this.view();
    this.observer.disconnect();
    clearTimeout(this.timer);
    clearTimeout(this.patience);
    this.word.end();
    cancelAnimationFrame(this.frame);
    this.sheet.remove();
    this.root.remove();
  }
}
