// The tour of the page: some stops, each an outline around a real control and a card that speaks of it. It begins by
// itself on a visitor's first page, and never again once it has ended; the sheet of keys has a button that begins it.

import { cornerBeside } from "./beside.js";
import { bringIntoSight, follow, outline } from "./outlines.js";
import { fxopt } from "./shared.js";

const BETWEEN_LOOKS = 250; // ms, while it waits for its first control
const ENDED = "fxopt tour"; // in the browser's storage, once it has ended
const tours = new WeakMap();

/**
 * @typedef {object} Stop
 * @property {string} title
 * @property {string} text
 * @property {import("./outlines.js").Place} place of its control
 * @property {import("./frame_sizes.js").Part | ""} part the panel of the frame that has the control
 */

export default function ({ data, parentElement }) {
  if (!tours.has(parentElement)) tours.set(parentElement, new Tour(data.stops));
  return () => {
    tours.get(parentElement)?.end();
    tours.delete(parentElement);
  };
}

class Tour {
  /** @param {Stop[]} stops */
  constructor(stops) {
    this.stops = stops;
    this.at = -1; // before it has begun, and after it has ended
    this.ending = new AbortController();
    const { signal } = this.ending;
    document.addEventListener("click", (event) => this.clicked(event.target), { signal, capture: true });
    document.addEventListener("keydown", (event) => this.pressed(event), { signal });
    if (!remembered()) this.frame = requestAnimationFrame(() => this.begin());
  }

  // It begins once the visitor sees its first control, and waits while a lesson leads through the page.
  begin() {
    const box = outline();
    const isThere = follow(box, this.stops[0].place) && fxopt.views[0]?.ready && !isInLesson();
    box.remove();
    if (isThere) this.go(0);
    else this.timer = setTimeout(() => this.begin(), BETWEEN_LOOKS);
  }

  go(at) {
    cancelAnimationFrame(this.frame);
    if (at >= this.stops.length) return this.stop();
    this.at = Math.max(0, at);
    this.card ??= this.made();
    const { title, text, place, part } = this.stops[this.at];
    if (part) fxopt.openPanel?.(part);
    const { heading, told, back, next, place: number } = this.parts;
    heading.textContent = title;
    told.textContent = text;
    number.textContent = `${this.at + 1} of ${this.stops.length}`;
    back.disabled = this.at === 0;
    next.textContent = this.at + 1 < this.stops.length ? "Next" : "Done";
    this.isInSight = bringIntoSight(place);
    const { colorScheme } = getComputedStyle(document.querySelector(".stApp")); // the body has that of the browser
    this.card.style.colorScheme = colorScheme;
    this.follow();
    // A region that is told of in the moment in which it appears is not read aloud.
    clearTimeout(this.timer);
    this.timer = setTimeout(() => (this.parts.status.textContent = `Tour, stop ${this.at + 1} of ${this.stops.length}. ${title}. ${text}`), 100);
  }

  made() {
    this.box = outline();
    const card = make("section", "tour");
    card.setAttribute("role", "dialog");
    card.setAttribute("aria-labelledby", "tour-title");
    card.setAttribute("aria-describedby", "tour-text");
    const heading = make("h2", "");
    heading.id = "tour-title";
    const told = make("p", "");
    told.id = "tour-text";
    const row = make("div", "tour-row");
    const place = make("span", "tour-place");
    const status = make("div", "lesson-status");
    status.setAttribute("role", "status");
    const end = button("End the tour", "tour-end", () => this.stop());
    const back = button("Back", "", () => this.go(this.at - 1));
    const next = button("Next", "tour-next", () => this.go(this.at + 1));
    row.append(place, end, back, next);
    card.append(heading, told, row, status);
    card.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key !== "Escape" && event.key !== "Tab") event.stopPropagation(); // those of the page are not meant
      if (by && this.at + by >= 0) this.go(this.at + by);
    });
    // After the links that skip to the parts of the page, and before all else.
    const skips = document.querySelector(".skip-links");
    if (skips) skips.after(card);
    else document.body.prepend(card);
    this.parts = { heading, told, back, next, place, status };
    return card;
  }

  // The page moves under the outline, as under that of a lesson.
  follow() {
    const { place } = this.stops[this.at];
    const { card, box } = this;
    card.hidden = isInLesson();
    const rect = card.hidden ? ((box.hidden = true), null) : follow(box, place);
    if (!this.isInSight) this.isInSight = bringIntoSight(place);
    if (rect) {
      const [x, y] = cornerBeside(rect, { width: card.offsetWidth, height: card.offsetHeight }, { width: innerWidth, height: innerHeight });
      card.style.translate = `${x}px ${y}px`;
    }
    this.frame = requestAnimationFrame(() => this.follow());
  }

  /** @param {EventTarget | null} target */
  clicked(target) {
    if (target instanceof Element && target.closest(".st-key-tour-again button")) this.go(0);
  }

  /** @param {KeyboardEvent} event */
  pressed(event) {
    if (this.at < 0 || event.key !== "Escape" || event.defaultPrevented) return;
    const isElsewhere = document.querySelector('[role="dialog"]:not(.tour), [role="listbox"]:not(.fx-stage)');
    if (!isElsewhere) this.stop();
  }

  // Over for good. A focus in the card goes on to the graph.
  stop() {
    if (this.card?.contains(document.activeElement)) fxopt.views[0]?.stage.focus({ preventScroll: true });
    remember();
    this.clear();
  }

  clear() {
    cancelAnimationFrame(this.frame);
    clearTimeout(this.timer);
    this.card?.remove();
    this.box?.remove();
    this.card = null;
    this.at = -1;
  }

  end() {
    this.ending.abort();
    this.clear();
  }
}

function make(tag, name) {
  const made = document.createElement(tag);
  made.className = name;
  return made;
}

function button(text, name, act) {
  const made = make("button", name);
  Object.assign(made, { type: "button", textContent: text });
  made.addEventListener("click", act);
  return made;
}

function isInLesson() {
  return document.querySelector('[data-testid="stSidebar"]:not([aria-expanded="false"])') !== null;
}

// Where the browser keeps nothing, the tour would begin with each page: it waits to be asked for.
function remembered() {
  try {
    return localStorage.getItem(ENDED) !== null;
  } catch (error) {
    if (error.name !== "SecurityError") throw error;
    return true;
  }
}

function remember() {
  try {
    localStorage.setItem(ENDED, "ended");
  } catch (error) {
    if (error.name !== "SecurityError" && error.name !== "QuotaExceededError") throw error;
  }
}
