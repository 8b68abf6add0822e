// The frame of the page: the edges of the panels, which are dragged or moved by keys, and the drawer of the evidence.
// Python does not hear of it. The sizes stay in the browser for as long as its tab is open.

import { skipLinks } from "./skips.js";
import { STEP, largest, recalled, sized, stepped } from "./frame_sizes.js";
import { fxopt } from "./shared.js";

const KEPT = "fxopt frame";
const TALL = "(min-height: 1000px)"; // as in frame.css: here the drawer is open from the beginning
const NARROW = "(min-width: 1100px) and (max-width: 1439px)"; // here two graphs have no room beside the inspector
const DRAGGED = 4; // px after which a press has become a drag; a press alone closes or opens
/** @type {{ part: import("./frame_sizes.js").Part, label: string, across: boolean, out: number }[]} */
const EDGES = [
  { part: "left", label: "Width of the list of passes", across: true, out: 1 },
  { part: "right", label: "Width of the inspector", across: true, out: -1 },
  { part: "drawer", label: "Height of the evidence", across: false, out: -1 },
];
const frames = new WeakMap();

// Read back, a registered size is in px. In frame.css this would be "<length>", which Streamlit takes for HTML.
for (const { part } of EDGES) {
  try {
    CSS.registerProperty({ name: `--${part}-own`, syntax: "<length>", inherits: true, initialValue: "300px" });
  } catch (error) {
    if (error.name !== "InvalidModificationError") throw error; // this page has it already
  }
}

export default function ({ parentElement }) {
  let frame = frames.get(parentElement);
  if (!frame) {
    frame = new Frame(parentElement);
    frames.set(parentElement, frame);
  }
  return () => {
    frame.end();
    frames.delete(parentElement);
  };
}

class Frame {
  constructor(parent) {
    this.sizes = recalled(sessionStorage.getItem(KEPT));
    this.ending = new AbortController();
    this.edges = new Map(EDGES.map((edge) => [edge.part, this.edge(edge)]));
    this.buttons = document.createElement("div");
    this.buttons.className = "drawer-steps";
    this.taller = this.button("▴", "Open the evidence, or make it taller", 1);
    this.lower = this.button("▾", "Make the evidence lower, or close it", -1);
    this.buttons.append(this.taller, this.lower);
    parent.append(...this.edges.values(), this.buttons);
    fxopt.openPanel = (part) => this.now(part).open || this.toggle(part);
    fxopt.panesChanged = () => this.show();
    fxopt.makeRoom = () => !matchMedia(TALL).matches && this.now("drawer").open && this.toggle("drawer");
    this.skips = skipLinks(fxopt.openPanel);
    const { signal } = this.ending;
    document.addEventListener("click", (event) => this.clicked(event.target), { signal, capture: true });
    window.addEventListener("resize", () => this.show(), { signal });
    this.messages = new ResizeObserver(([{ target }]) =>
      document.documentElement.style.setProperty("--messages", `${Math.ceil(target.getBoundingClientRect().height)}px`),
    );
    const told = document.querySelector(".st-key-messages");
    if (told) this.messages.observe(told);
    this.show();
  }

  end() {
    this.ending.abort();
    this.messages.disconnect();
    delete fxopt.openPanel;
    delete fxopt.panesChanged;
    delete fxopt.makeRoom;
    for (const element of [...this.edges.values(), this.buttons, this.skips]) element.remove();
  }

  button(sign, title, direction) {
    const made = document.createElement("button");
    Object.assign(made, { type: "button", textContent: sign, title });
    made.setAttribute("aria-label", title);
    made.addEventListener("click", () => this.set("drawer", stepped(this.now("drawer"), direction, innerHeight)));
    return made;
  }

  edge({ part, label, across, out }) {
    const made = document.createElement("div");
    made.className = `edge edge-${part}`;
    made.tabIndex = 0;
    made.title = `${label}: drag, or click to close and open`;
    made.setAttribute("role", "separator");
    made.setAttribute("aria-orientation", across ? "vertical" : "horizontal");
    made.setAttribute("aria-label", label);
    const place = (event) => (across ? event.clientX : event.clientY);
    let start = null;
    made.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      event.preventDefault();
      made.setPointerCapture(event.pointerId);
      start = { at: place(event), size: this.shown(part), moved: false };
    });
    made.addEventListener("pointermove", (event) => {
      if (!start) return;
      const by = (place(event) - start.at) * out;
      start.moved ||= Math.abs(by) > DRAGGED;
      if (start.moved) this.set(part, sized(part, start.size + by, this.now(part), this.room(part)));
    });
    made.addEventListener("pointerup", () => {
      if (start && !start.moved) this.toggle(part);
      start = null;
    });
    made.addEventListener("pointercancel", () => (start = null));
    made.addEventListener("keydown", (event) => {
      const [less, more] = across ? ["ArrowLeft", "ArrowRight"] : ["ArrowUp", "ArrowDown"];
      const by = { [less]: -STEP, [more]: STEP }[event.key];
      if (by) this.set(part, sized(part, this.shown(part) + by * out, this.now(part), this.room(part)));
      else if (event.key === "Enter") this.toggle(part);
      else return;
      event.preventDefault();
    });
    return made;
  }

  // A tab, or a figure that leads to one, opens the drawer.
  clicked(target) {
    const tab = target instanceof Element ? target.closest(".st-key-drawer [role=tab]") : null;
    if (tab && !this.now("drawer").open) this.set("drawer", stepped({ size: 0, open: false }, 1, innerHeight));
  }

  toggle(part) {
    const { size, open } = this.now(part);
    this.set(part, { size, open: !open });
  }

  set(part, size) {
    this.sizes[this.kept(part)] = size;
    sessionStorage.setItem(KEPT, JSON.stringify(this.sizes));
    this.show();
  }

  // The name under which the size of a part is kept: beside two graphs in a narrow window the inspector has another.
  /** @returns {import("./frame_sizes.js").Kept} */
  kept(part) {
    return part === "right" && fxopt.views.length > 1 && matchMedia(NARROW).matches ? "beside" : part;
  }

  // The size of a part: as it was chosen, else as the style sheet has it for this window.
  now(part) {
    const own = Number.parseFloat(getComputedStyle(document.documentElement).getPropertyValue(`--${part}-own`));
    const kept = this.kept(part);
    const open = kept === "drawer" ? matchMedia(TALL).matches : kept !== "beside";
    return this.sizes[kept] ?? { size: this.sizes[part]?.size ?? Math.round(own), open };
  }

  shown(part) {
    const { size, open } = this.now(part);
    return open ? size : 0;
  }

  // The px that a part and the graph share.
  room(part) {
    return part === "drawer" ? innerHeight : innerWidth - this.shown(part === "left" ? "right" : "left");
  }

  show() {
    const { style, dataset } = document.documentElement;
    for (const [part, edge] of this.edges) {
      const { size, open } = this.now(part);
      const most = largest(part, this.room(part));
      const px = Math.min(size, most);
      const isOwn = !this.sizes[this.kept(part)] && this.kept(part) === part;
      if (isOwn) style.removeProperty(`--${part}`);
      else style.setProperty(`--${part}`, `${open ? px : 0}px`);
      dataset[part] = open ? "open" : "closed";
      edge.setAttribute("aria-valuenow", String(open ? px : 0));
      edge.setAttribute("aria-valuemin", "0");
      edge.setAttribute("aria-valuemax", String(most));
      edge.setAttribute("aria-valuetext", open ? `${px} pixels` : "closed");
    }
    const { open } = this.now("drawer");
    this.lower.disabled = !open;
    this.taller.disabled = open && this.now("drawer").size >= stepped(this.now("drawer"), 1, innerHeight).size;
  }
}
