// Tells Python at which pass or site the visitor points, by mouse or by focus, once the pointer rests; and shows what
// Python then says it would do.

import { fxopt } from "./shared.js";

const REST = 220; // ms: who only passes over a row asks for nothing
const BY_POINTER = 300; // ms after a press of a pointer in which what gets the focus was clicked, not gone to by a key
const QUIET = 800; // ms after a press in which nothing is asked: an answer could be caught up with by the next press
const ROW = /^st-key-(?:current-)?(?:(pass)-([A-Z]\d*)-.*|(sites?)-([A-Z]\d*)-at-(.+)|act-(\d+)-.*)$/;
const watchers = new WeakMap();

export default function ({ data, parentElement, setStateValue }) {
  let watcher = watchers.get(parentElement);
  if (!watcher) {
    watcher = new Watcher();
    watchers.set(parentElement, watcher);
  }
  watcher.send = (row) => setStateValue("over", row);
  watcher.take(data);
  return () => {
    watcher.end();
    watchers.delete(parentElement);
  };
}

class Watcher {
  constructor() {
    /** @type {(row: string) => void} */
    this.send = () => {};
    this.row = "";
    this.pressedAt = -QUIET;
    this.clickedAt = -BY_POINTER;
    this.ending = new AbortController();
    const { signal } = this.ending;
    document.addEventListener("pointerover", (event) => event.buttons || this.over(event.target), { signal });
    document.addEventListener("focusin", (event) => this.focused(event.target), { signal });
    for (const press of ["pointerdown", "pointerup", "keydown"])
      document.addEventListener(press, (event) => this.pressed(event), { signal, capture: true });
    document.documentElement.addEventListener("pointerleave", () => this.over(null), { signal });
  }

  // Whoever acts knows what they point at; they are told again where they point at something else.
  pressed(event) {
    this.pressedAt = performance.now();
    this.clickedAt = event.type === "keydown" ? -BY_POINTER : this.pressedAt;
    clearTimeout(this.timer);
    this.hide();
  }

  // A click gives the focus to the page around a switch, and then to the switch: neither is a change of mind.
  focused(target) {
    if (performance.now() - this.clickedAt > BY_POINTER) this.over(target);
  }

  over(target) {
    const row = rowOf(target);
    if (row === this.row) return;
    this.row = row;
    this.hide();
    clearTimeout(this.timer);
    // Nothing need be asked where no row is pointed at.
    const wait = Math.max(REST, this.pressedAt + QUIET - performance.now());
    if (row) this.timer = setTimeout(() => this.ask(row), wait);
  }

  ask(row) {
    if (this.data?.over === row) this.show();
    this.send(row);
  }

  take(data) {
    this.data = data;
    if (data.over && data.over === this.row) this.show();
    else this.hide();
  }

  show() {
    fxopt.preview?.(this.data.marks, this.data.styles, this.data.word);
  }

  hide() {
    fxopt.preview?.(null);
  }

  end() {
    clearTimeout(this.timer);
    this.ending.abort();
    this.hide();
  }
}

function rowOf(target) {
  for (let at = target?.nodeType === 1 ? target : null; at; at = at.parentElement)
    for (const name of at.classList) {
      const found = ROW.exec(name);
      if (found?.[6]) return `act ${found[6]}`;
      if (found) return found[1] ? `pass ${found[2]}` : `${found[3]} ${found[4]} ${found[5]}`;
    }
  return "";
}
