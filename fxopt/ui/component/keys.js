// Keys that hold on the whole page. What a key does to the passes is Python's; what it does to the graph is done here.

import { Acts } from "./acts.js";
import { Drag } from "./drag.js";
import { Lookout } from "./lookout.js";
import { fxopt } from "./shared.js";

const TO_PYTHON = new Set([
  "ArrowUp", "ArrowDown", "ArrowLeft", "ArrowRight", "Enter", "f", "r", "?", "undo", "redo", "earlier", "later",
]);
const EVERYWHERE = ["?", "step"]; // as in keys.py
const FORESEEN = { undo: "icon-undo", redo: "icon-redo" }; // what the same is called as a button; see foreseen.js
const TO_GRAPH = {
  "/": (pane) => pane.chrome.find.select(),
  " ": (pane) => pane.view.fit(),
};
// What has a use of its own for arrows, Enter or Space when it has the focus.
const TYPING = "input:not([type=checkbox]), textarea, select, [contenteditable=true], [role=textbox], [role=combobox]";
const ACTING = "button, a, summary, [role=button], [role=switch], input[type=checkbox]";
const MOVING = "[role=tab], [role=separator], [role=radio], [role=slider], [role=listbox], [role=option], [role=menuitem], [role=grid], canvas";
const listeners = new WeakMap();

export default function ({ data, parentElement, setStateValue }) {
  let listener = listeners.get(parentElement);
  if (!listener) {
    listener = new Listener();
    listeners.set(parentElement, listener);
  }
  listener.send = (message) => setStateValue("pressed", message);
  listener.acts.take(data);
  return () => {
    listener.ending.abort();
    listeners.delete(parentElement);
  };
}

class Listener {
  constructor() {
    this.acts = new Acts(EVERYWHERE);
    /** @type {(message: import("./acts.js").Message) => void} */
    this.send = () => {};
    this.ending = new AbortController();
    // Before Streamlit, which has r and c for itself (the latter clears the caches of every visitor).
    window.addEventListener("keydown", (event) => this.press(event), { capture: true, signal: this.ending.signal });
    document.addEventListener("click", openEvidence, { signal: this.ending.signal });
    new Drag((act) => this.tell(act), this.ending.signal);
    new Lookout(this.ending.signal, (search) => this.send(this.acts.add("step", search)));
    fxopt.keys = this; // see foreseen.js
  }

  press(event) {
    const target = event.composedPath()[0];
    if (!(target instanceof Element) || document.querySelector("[role=dialog]")) return;
    const key = nameOf(event);
    if (!key || isBusy(target, key)) return;
    if (key === "g") switchToCode();
    else if (TO_GRAPH[key]) fxopt.views.filter((pane) => pane.scene).slice(0, 1).forEach(TO_GRAPH[key]);
    else if (TO_PYTHON.has(key)) this.tell(key);
    else if (key !== "c") return;
    event.preventDefault();
    event.stopImmediatePropagation();
  }

  tell(key) {
    if (this.acts.isFull) return;
    fxopt.foresee?.(FORESEEN[key] ?? key);
    this.send(this.acts.add(key));
  }
}

function nameOf(event) {
  const command = event.ctrlKey || event.metaKey;
  if (event.altKey) return command ? "" : ({ ArrowUp: "earlier", ArrowDown: "later" }[event.key] ?? "");
  if (command && event.key.toLowerCase() === "z") return event.shiftKey ? "redo" : "undo";
  if (command && event.key.toLowerCase() === "y") return "redo";
  return command ? "" : event.key;
}

function isBusy(target, key) {
  if (target.closest(TYPING)) return true;
  // The graph walks along its own edges; see input.js.
  if (target.closest(".fx-stage")) return !["f", "r", "g", "?", "c", "undo", "redo", "earlier", "later"].includes(key);
  if (target.closest(".fx") && (key === "Enter" || key === " ")) return true;
  if (key === "Enter" || key === " ") return Boolean(target.closest(ACTING) ?? target.closest(MOVING));
  return key.startsWith("Arrow") && Boolean(target.closest(MOVING));
}

/** @param {string} name */
function tabOf(name) {
  const tabs = [...document.querySelectorAll("[role=tab]")].map((one) => /** @type {HTMLElement} */ (one));
  return tabs.find((one) => one.textContent.trim() === name);
}

const KEEPING = 2000; // ms in which a tab that was opened, and is drawn anew by Streamlit, gets the focus back

// Keeps the focus on a tab; a focus that went elsewhere, and not just away with the tab, stays there.
function focusTab(name) {
  const end = performance.now() + KEEPING;
  const keep = () => {
    const held = document.activeElement;
    if (!held || held === document.body) tabOf(name)?.focus({ preventScroll: true });
    if (performance.now() < end) requestAnimationFrame(keep);
  };
  tabOf(name)?.focus({ preventScroll: true });
  requestAnimationFrame(keep);
}

// A figure of the line above the graph opens the tab of evidence that has its table.
function openEvidence(event) {
  const name = event.target instanceof Element ? event.target.closest("[data-evidence]")?.getAttribute("data-evidence") : null;
  const tab = name && tabOf(name);
  if (!tab) return;
  tab.click();
  focusTab(name);
  tab.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth", block: "start" });
}

// To the generated code below the graph, and back to the graph from there.
function switchToCode() {
  const tab = tabOf("Code");
  const stage = fxopt.views[0]?.stage;
  const smooth = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
  const chosen = tab?.getAttribute("aria-selected") === "true" && document.activeElement === tab;
  const [to, block] = chosen ? [stage, "center"] : [tab, "start"];
  if (!to) return;
  if (!chosen) tab.click();
  to.focus({ preventScroll: true });
  to.scrollIntoView({ behavior: smooth, block });
}
