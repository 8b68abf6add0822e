// A lesson's outlines around the controls that it speaks of, wherever they are on the page; and its words for whoever
// hears the page.

import { FirstPlace } from "./first_place.js";
import { bringIntoSight, follow, outline } from "./outlines.js";

const shows = new WeakMap();

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
    this.frame = requestAnimationFrame(() => this.follow());
  }

  /** @param {{ step: string, places: Place[], told: string, told_at: string }} data */
  take({ step, places, told, told_at }) {
    if (step !== this.step) this.unread = this.step === undefined ? "" : ".st-key-lesson-list"; // a reload leaves the panel where it was
    else if (this.status.textContent !== told) this.unread = told_at;
    this.step = step;
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
    if (this.unread && bringIntoSight({ css: `[data-testid="stSidebar"] ${this.unread}` })) this.unread = "";
    this.frame = requestAnimationFrame(() => this.follow());
  }

  clear() {
    for (const { box } of this.shown) box.remove();
  }

  end() {
    cancelAnimationFrame(this.frame);
    this.clear();
    this.status.remove();
  }
}
