// Outlines around controls of the page and nodes of the graph: where each is, and how to bring it into sight.

import { outlineOf } from "./beside.js";
import { fxopt } from "./shared.js";

const NEAR_EDGE = 40; // px from the edge of the graph: a box that is nearer may be covered as the graph becomes smaller

/**
 * @typedef {{ css?: string, around?: string, text?: string, node?: string }} Place
 * a selector, with the text of the element or without, and the one of what is around it, for as long as it is folded away;
 * or a node
 */
/** @typedef {import("./beside.js").Area} Area */

/** @returns {HTMLElement} an outline, for the caller to remove */
export function outline() {
  const made = document.createElement("div");
  made.className = "lesson-outline";
  made.setAttribute("aria-hidden", "true");
  made.hidden = true;
  document.body.append(made);
  return made;
}

/**
 * Put an outline around the part of a control that is in sight; hide it where there is none.
 * @param {HTMLElement} box
 * @param {Place} place
 * @returns {Area | null} the part in sight
 */
export function follow(box, place) {
  const rect = place.node ? nodeRect(place.node) : visibleRect(elementAt(place));
  box.hidden = !rect;
  if (!rect) return null;
  const { left, top, right, bottom } = outlineOf(rect, { width: innerWidth, height: innerHeight });
  box.style.translate = `${left}px ${top}px`;
  box.style.width = `${right - left}px`;
  box.style.height = `${bottom - top}px`;
  return rect;
}

/**
 * Bring a control into sight; false where the page has none yet.
 * @param {Place} place
 */
export function bringIntoSight(place) {
  const found = place.node && nodeBox(place.node);
  const element = place.css && elementAt(place);
  if (!found && !element) return false;
  if (found) {
    if (!found.pane.view.shows(found.box, NEAR_EDGE)) found.pane.view.reveal(found.box);
    return true;
  }
  const smooth = !matchMedia("(prefers-reduced-motion: reduce)").matches;
  // Of a control that is higher than its panel, as an open row of passes, the beginning is what is spoken of.
  const block = element.getBoundingClientRect().height > heightOfPanel(element) ? "start" : "nearest";
  element.scrollIntoView({ behavior: smooth ? "smooth" : "auto", block, inline: "nearest" });
  return true;
}

// The parts of a graph are in a tree of their own (a shadow root), where the selectors of the page find nothing.
/** @param {Place} place */
function elementAt({ css, around, text }) {
  const roots = [document, ...fxopt.views.map((pane) => pane.root.getRootNode())];
  const all = (selector) => roots.flatMap((root) => [...root.querySelectorAll(selector)]);
  const found = all(css);
  if (text !== undefined) return found.find((one) => one.textContent.trim() === text);
  return found[0] ?? (around && all(around)[0]);
}

function heightOfPanel(element) {
  let around = outside(element);
  while (around && getComputedStyle(around).overflowY === "visible") around = outside(around);
  return around?.clientHeight ?? innerHeight;
}

// The part of an element that its scrolling panel shows; nothing if that is none.
function visibleRect(element) {
  if (!element?.checkVisibility({ visibilityProperty: true })) return null;
  const own = element.getBoundingClientRect();
  let [left, top, right, bottom] = [own.left, own.top, own.right, own.bottom];
  for (let around = outside(element); around; around = outside(around)) {
    if (getComputedStyle(around).overflowY === "visible") continue;
    const edge = around.getBoundingClientRect();
    [left, top] = [Math.max(left, edge.left), Math.max(top, edge.top)];
    [right, bottom] = [Math.min(right, edge.right), Math.min(bottom, edge.bottom)];
  }
  return right - left > 2 && bottom - top > 2 ? { x: left, y: top, width: right - left, height: bottom - top } : null;
}

function outside(element) {
  return element.parentElement ?? element.getRootNode().host;
}

// The box of a node, or of the folded module that hides it.
function nodeBox(name) {
  const pane = fxopt.views.find((one) => one.ready && one.scene?.find(name) >= 0);
  return pane && { pane, box: pane.scene.find(name) };
}

// The part of a node's box that is in the window of the graph.
function nodeRect(name) {
  const found = nodeBox(name);
  if (!found) return null;
  const { pane } = found;
  const box = pane.pageRect(pane.scene.rect(found.box));
  const stage = pane.stage.getBoundingClientRect();
  const [left, top] = [Math.max(box.x, stage.left), Math.max(box.y, stage.top)];
  const [right, bottom] = [Math.min(box.x + box.width, stage.right), Math.min(box.y + box.height, stage.bottom)];
  return right - left > 2 && bottom - top > 2 ? { x: left, y: top, width: right - left, height: bottom - top } : null;
}
