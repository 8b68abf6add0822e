// A lesson's outlines around the controls that it speaks of, wherever they are on the page; and its words for whoever
// hears the page.

import { FirstPlace } from "./first_place.js";
import { bringIntoSight, follow, outline } from "./outlines.js";
import { fxopt } from "./shared.js";

const shows = new WeakMap();
const TOP = '[data-testid="stSidebar"] .st-key-lesson-list'; // of the panel, where each step begins
const SETTLING_MS = 1000; // so long the panel may still move, as the parts of a new step come
let lessonsBegun; // how many lessons the visitor has begun, as the page said last
let stepInPanel; // also where Streamlit mounts the component anew

/** @typedef {import("./outlines.js").Place} Place */

export default function ({ data, parentElement }) {
  let outlines = shows.get(parentElement);
  if (!outlines) {
    outlines = new Outlines(parentElement);
    shows.set(parentElement, outlines);
  }
  outlines.take(data);
  return () => {
    outlines.end();
    shows.delete(parentElement);
  };
}

class Outlines {
  constructor(parent) {
    this.status = document.createElement("div");
    this.status.setAttribute("role", "status");
    this.status.className = "lesson-status";
    parent.append(this.status);
    /** @type {{ place: Place, box: HTMLElement }[]} */
    this.shown = [];
    /** @type {FirstPlace<Place>} */
    this.first = new FirstPlace();
    this.unread = ""; // the place in the panel of words that came just now, which may lie below its edge
    this.topUntil = 0; // until then the panel stays at its top, unless the visitor acts
    this.ending = new AbortController();
    for (const act of ["wheel", "pointerdown", "keydown"]) {
      addEventListener(act, () => (this.topUntil = 0), { signal: this.ending.signal, capture: true, passive: true });
    }
    this.frame = requestAnimationFrame(() => this.follow());
  }

  /** @param {{ step: string, places: Place[], told: string, told_at: string, begun: number }} data */
  take({ step, places, told, told_at, begun }) {
    if (lessonsBegun !== undefined && begun > lessonsBegun) fxopt.makeRoom?.(); // of an earlier lesson, and empty by now
    lessonsBegun = begun;
    const isNew = step !== stepInPanel;
    if (isNew && stepInPanel !== undefined) this.topUntil = performance.now() + SETTLING_MS; // a reload leaves it where it was
    if (isNew) this.unread = ""; // its words are read from the top
    else if (this.status.textContent !== told) this.unread = told_at;
    stepInPanel = step;
    if (this.status.textContent !== told) this.status.textContent = told;
    const key = JSON.stringify(places);
    if (key !== this.key) {
      this.key = key;
      this.clear();
      this.shown = places.map((place) => ({ place, box: outline() }));
    }
    this.first.take(step, places);
  }

  // The page moves under the outlines: panels scroll, the graph pans, and Streamlit draws controls anew.
  follow() {
    for (const { place, box } of this.shown) follow(box, place);
    // Once a step, and once its first control is there.
    if (this.first.unseen && bringIntoSight(this.first.unseen)) this.first.seen();
    if (performance.now() < this.topUntil) document.querySelector(TOP)?.scrollIntoView({ block: "nearest" });
    else if (this.unread && bringIntoSight({ css: `[data-testid="stSidebar"] ${this.unread}` })) this.unread = "";
    this.frame = requestAnimationFrame(() => this.follow());
  }

  clear() {
    for (const { box } of this.shown) box.remove();
  }

  end() {
    cancelAnimationFrame(this.frame);
    this.ending.abort();
    this.clear();
    this.status.remove();
  }
}
