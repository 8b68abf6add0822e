// One graph on the page, put together: what Python says (protocol.js), the selection, the view, the drawing, and the
// acts of the visitor, which are all that is sent to Python (acts.js). The viewport stays in the browser.

import { Acts } from "./acts.js";
import { SIGNS } from "./boxes.js";
import { Chrome, element, MARK_WORDS, Search } from "./chrome.js";
import { endsOf, middleOf } from "./curves.js";
import { Edges } from "./edges.js";
import { Word } from "./foreseen.js";
import { listenToPointer, pressed } from "./input.js";
import { light, linkedTo, shareCamera } from "./links.js";
import { noPath } from "./marks.js";
import { Menu } from "./menu.js";
import { Minimap } from "./minimap.js";
import { paint } from "./paint.js";
import { Player } from "./player.js";
import { showData } from "./protocol.js";
import { CONTROL } from "./scene.js";
import { boxOf, Selection } from "./selection.js";
import { fxopt } from "./shared.js";
import { spokenBox } from "./spoken.js";
import { stageElements } from "./stage.js";
import { STYLES } from "./styles.js";
import { Theme } from "./theme.js";
import { View } from "./view.js";

const PATIENCE = 5000; // ms after which a module that was to be opened can be tried again
const KEY_DELAY = 150; // ms that arrow keys must rest before Python hears of the selection

export class Pane {
  constructor(parent) {
    this.root = element("div", "fx");
    this.root.dataset.map = "none";
    this.view = new View(this);
    this.selection = new Selection();
    this.marks = new Map();
    this.styles = [];
    this.unseen = 0;
    this.lit = new Set(); // boxes that belong to what is pointed at or selected
    this.families = new Map();
    this.bars = {}; // costs by the numbers of the whole layout: [share of the largest, in words]
    this.at = -1;
    this.acts = new Acts(); // each is what was done, and to which name
    this.path = noPath(); // the way on which the boxes cost the most
    this.legend = []; // marks with their counts in words, as Python gives them
    this.became = []; // pairs of boxes: of a node that is gone, and of one that does its work
    this.moves = new Map(); // the moves that Python asked for, by key, and whether each is done
    this.scene = null;
    this.subject = ""; // the model
    this.foldable = true;
    this.word = new Word(this);
    this.motion = null;
    this.search = new Search(this);
    this.chrome = new Chrome(this);
    this.player = new Player(this);
    this.edges = new Edges(this);
    this.map = new Minimap(this);
    const parts = stageElements();
    this.stage = parts.stage;
    this.option = parts.option;
    this.tip = parts.tip;
    this.menu = new Menu(this);
    this.context = parts.canvas.getContext("2d");
    listenToPointer(this);
    this.stage.addEventListener("keydown", (event) => pressed(this, event));
    const middle = element("div", "fx-middle");
    middle.append(this.stage, this.map.canvas, this.menu.root);
    this.root.append(this.chrome.bar, middle, this.player.row, this.chrome.foot);
    this.sheet = element("style", "", STYLES);
    parent.append(this.sheet, this.root);
    this.theme = new Theme(this.root);
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(middle);
    this.middle = middle;
    document.fonts?.ready.then(() => this.fontsCame());
  }

  // Show what Python says, unless this pane is ahead of it.
  update(data, setState, scene) {
    this.setState = setState;
    if (this.word.hear(data)) this.show(data, scene);
  }

  show(data, scene) {
    showData(this, data, scene);
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

  get selected() {
    return this.selection.box;
  }

  get selectedName() {
    return this.selection.name;
  }

  choose(i) {
    this.edges.focused = -1;
    this.selection.choose(this.scene, i);
    light(this);
    this.map.stale = true;
    this.speak();
  }

  // The visitor goes to a node that a folded module hides; Python opens what is needed.
  goInto(name) {
    this.selection.name = name;
    this.choose(this.scene.find(name));
    this.view.reveal(this.selected);
    clearTimeout(this.timer);
    this.selection.sent.push(name);
    this.tell("reveal", name);
  }

  // The visitor selects; `when` says whether Python hears "now" or after the keys have come to "rest".
  select(i, when) {
    const name = i < 0 ? null : this.scene.names[i];
    this.selection.name = name;
    this.choose(i);
    this.draw();
    clearTimeout(this.timer);
    const tell = () => {
      this.selection.sent.push(name);
      this.tell("select", name);
    };
    if (when === "rest") this.timer = setTimeout(tell, KEY_DELAY);
    else tell();
    for (const other of linkedTo(this)) other.follow(name);
  }

  tell(what, name) {
    if (/^ed(it|ge) /.test(what)) fxopt.openPanel?.("right"); // the form of edits is there, and its answer
    if (!this.acts.isFull) this.setState("events", this.acts.add(what, name));
  }

  follow(name) {
    this.selection.name = name;
    const i = boxOf(this.scene, name);
    this.choose(i);
    // Another picture may need to move to where its own box is; in the same one, both look at one place anyway.
    const [shown] = i >= 0 ? [i] : this.lit;
    if (shown !== undefined && !this.view.shows(shown)) this.view.reveal(shown);
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
    const { scene, selection, stage, option } = this;
    const { box: i, frame } = selection;
    const edge = this.edges.spoken;
    option.setAttribute("aria-selected", String(i >= 0 || frame !== null || edge !== null));
    const [place, count] = edge ? [edge.place, edge.count] : [i + 1, scene.count];
    option.setAttribute("aria-posinset", place || 1); // of the frame of a module, or of nothing
    option.setAttribute("aria-setsize", place ? count : 1);
    if (edge) option.textContent = edge.words;
    else if (i >= 0) {
      // What a preview would do is told by the line above the passes.
      const marks = (this.marks.get(i) ?? [])
        .filter((mark) => !mark.ghost)
        .map(([kind, pass]) => `${kind in SIGNS ? "" : (this.styles[pass]?.[0] ?? "")} ${MARK_WORDS[kind]}`);
      const cost = this.bars[scene.numberOf(i)]?.[1];
      option.textContent = spokenBox(scene, i, { marks, cost, isOnPath: this.path.boxes.has(i) });
    } else option.textContent = frame ? `${frame.title}, open` : "No node selected";
    if (i >= 0 || frame || edge) stage.setAttribute("aria-activedescendant", option.id);
    else stage.removeAttribute("aria-activedescendant");
  }

  // --- view -----------------------------------------------------------------------------------------------

  get camera() {
    return this.view.camera;
  }

  /** @returns {[number, number]} width and height, in pixels */
  stageSize() {
    return [this.stage.clientWidth, this.stage.clientHeight];
  }

  // --- drawing --------------------------------------------------------------------------------------------

  draw() {
    if (this.frame || !this.scene) return;
    this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.motion?.moveOn(performance.now());
    paint(this.context, this);
    this.map.paint();
    shareCamera(this);
    if (this.motion?.isDone) this.motion = null;
    if (this.motion) this.draw();
    fxopt.looked?.(this);
  }

  // Where a box is drawn now: on its way, while a new layout glides into place.
  shownRect(i) {
    const rect = this.scene.rect(i);
    return this.motion ? this.motion.rect(i, rect) : rect;
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
    if (this.scene && scale !== this.theme.scale) this.view.zoom(this.theme.scale / scale, [this.stageSize()[0] / 2, 0]);
  }

  resized() {
    // What is taken off the page, or hidden on it, has neither a size nor a style.
    if (!this.scene || !this.root.clientWidth) return;
    this.readTheme();
    const box = this.middle.getBoundingClientRect();
    this.map.arrange(this.scene, box.width, box.height);
    this.view.resized();
  }

  fontsCame() {
    if (this.scene) this.scene.fitted = { title: [], subtitle: [] };
    this.draw();
  }

  // --- for tests: state to wait for, and where to click ------------------------------------------------------

  get ready() {
    return Boolean(this.scene) && !this.frame && !this.motion && !this.pending && !this.player.isAtWork;
  }

  get layoutId() {
    return this.scene?.id ?? null;
  }

  isInView(i, margin = 0) {
    return this.view.shows(i, margin);
  }

  nodeRect(name) {
    return this.pageRect(this.scene.rect(this.scene.index.get(name)));
  }

  /** The ends of the edge between two nodes, and its middle, on the page. */
  edgePoints(source, target) {
    const { scene } = this;
    const edge = scene.edgesOf[scene.find(source)].find((one) => scene.ends[2 * one + 1] === scene.find(target));
    const [from, to] = endsOf(scene.curves[edge]);
    return [from, to, middleOf(scene.curves[edge])].map(([x, y]) => this.pageRect([x, y, 0, 0]));
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
    if (this.scene) fxopt.left = this.view.seen;
    this.observer.disconnect();
    this.menu.ending.abort();
    clearTimeout(this.timer);
    clearTimeout(this.patience);
    this.word.end();
    this.player.end();
    cancelAnimationFrame(this.frame);
    this.sheet.remove();
    this.root.remove();
  }
}
