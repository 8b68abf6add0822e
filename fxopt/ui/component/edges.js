// An edge under the pointer or reached by keys, and the drag of one of its ends to another node. The edit is Python's to
// check.

import { besideEnds, endsOf, middleOf } from "./curves.js";
import { NEAR } from "./draw.js";

const REACH = 6; // px from an edge at which the pointer is at it
const GRIP = 9; // px from an end of an edge at which it can be taken

/** @typedef {{ edge: number, end: number }} Grip an edge, and its end: 0 at the source, 1 at the target */

export class Edges {
  /** @param {import("./pane.js").Pane} pane */
  constructor(pane) {
    this.pane = pane;
    this.hovered = -1;
    this.focused = -1; // the edge that the keys have reached
    /** @type {Grip & { at: [number, number] } | null} the end that is being dragged, and where it is now */
    this.held = null;
  }

  // Edges can be pointed at where they can be edited, and are large enough to hit.
  get areInReach() {
    const { pane } = this;
    return pane.foldable && pane.camera.zoom > NEAR && !pane.player.moment;
  }

  /** @param {[number, number]} place in the stage @returns {number} the edge there; -1 for none, or where a box is */
  at(place) {
    const { pane } = this;
    const world = pane.camera.toWorld(place);
    if (!this.areInReach || pane.scene.boxAt(...world) >= 0) return -1;
    return pane.scene.edgeAt(...world, REACH / pane.camera.zoom);
  }

  /** The names of the two nodes that an edge joins; null where a folded module is one. @param {number} edge */
  names(edge) {
    const { scene } = this.pane;
    const boxes = [scene.ends[2 * edge], scene.ends[2 * edge + 1]];
    return boxes.some((box) => scene.groups.has(box)) ? null : boxes.map((box) => scene.plainName(box));
  }

  /** @param {number} edge @returns {string} */
  told(edge) {
    const { scene } = this.pane;
    const [source, target] = [scene.ends[2 * edge], scene.ends[2 * edge + 1]].map((box) => scene.groups.get(box) ?? scene.plainName(box));
    const operand = scene.operands[edge] ? `, operand ${scene.operands[edge]}` : "";
    return `${source} → ${target}${operand}`;
  }

  /** @param {number} edge */
  hover(edge) {
    if (edge === this.hovered) return;
    this.hovered = edge;
    this.pane.draw();
  }

  // Go along the edges of the selected box by keys, to where they lead first; along all edges where none is selected.
  /** @param {number} by 1 or -1 */
  step(by) {
    const { pane } = this;
    if (!pane.foldable || pane.player.moment) return pane.chrome.say("edges are edited in the view Now");
    const around = pane.scene.edgesAround(pane.selected);
    if (!around.length) return pane.chrome.say("no edge is drawn at this box");
    const at = around.indexOf(this.focused);
    this.focused = around.at(at < 0 ? (by > 0 ? 0 : -1) : (at + by) % around.length);
    pane.view.revealPoint(middleOf(pane.scene.curves[this.focused]));
    pane.speak();
    pane.draw();
  }

  // The box at an end of the edge that the keys have reached: 0 at its source, 1 at its target.
  /** @param {number} end */
  endOfFocused(end) {
    return this.pane.scene.ends[2 * this.focused + end];
  }

  openMenuOfFocused() {
    const { pane } = this;
    if (pane.menu.root.matches(":popover-open")) return;
    const { x, y } = pane.pageRect([...middleOf(pane.scene.curves[this.focused]), 0, 0]);
    pane.menu.openAtEdge(this.focused, x, y);
  }

  // The edge that the keys have reached, in words, its place, and the number of edges there; null where they are at none.
  get spoken() {
    if (this.focused < 0) return null;
    const around = this.pane.scene.edgesAround(this.pane.selected);
    const [place, count] = [around.indexOf(this.focused) + 1, around.length];
    return { words: `Edge ${this.told(this.focused).replace(" → ", " to ")}, ${place} of ${count}, Enter opens its menu`, place, count };
  }

  // The edges whose ends can be taken: the one that is pointed at, which comes first where ends meet, and those of the
  // selected box.
  get offered() {
    const { pane, hovered } = this;
    const edges = hovered >= 0 && hovered < pane.scene.paths.length ? [hovered] : [];
    if (pane.selected >= 0) edges.push(...pane.scene.edgesOf[pane.selected]);
    return [...new Set(edges)].filter((edge) => this.names(edge));
  }

  /** @param {[number, number]} place @returns {Grip | null} the end of an edge that a press there takes */
  grip(place) {
    const { pane } = this;
    if (!this.areInReach) return null;
    const world = pane.camera.toWorld(place);
    for (const edge of this.offered) {
      const end = pane.scene.endAt(edge, ...world, GRIP / pane.camera.zoom);
      if (end >= 0) return { edge, end };
    }
    return null;
  }

  /** @param {Grip} grip @param {[number, number]} place */
  take(grip, place) {
    this.held = { ...grip, at: place };
    this.pane.tip.hidden = true;
  }

  /** @param {[number, number]} place */
  move(place) {
    this.held.at = place;
    this.pane.hovered = this.pane.scene.boxAt(...this.pane.camera.toWorld(place));
    this.pane.draw();
  }

  // Nothing happens where it is let go of beside all boxes, or where it was.
  drop() {
    const { pane, held } = this;
    const { scene } = pane;
    const box = scene.boxAt(...pane.camera.toWorld(held.at));
    const [source, target] = this.names(held.edge);
    this.cancel();
    if (box < 0 || box === scene.ends[2 * held.edge + held.end]) return;
    const path = scene.groups.get(box);
    if (path) return pane.chrome.say(`${path} is folded: open it, and drop the edge on a node in it`);
    pane.tell(held.end ? "edge target" : "edge source", `${source} ${target} ${scene.plainName(box)}`);
  }

  cancel() {
    this.held = null;
    this.hovered = -1;
    this.pane.draw();
  }

  // Edges have their numbers from the picture, and another one has others.
  forget() {
    this.held = null;
    this.hovered = -1;
    this.focused = -1;
  }
}

// The edge that is pointed at, the ends that can be taken, and the edge as it is dragged.
export function paintEdgesInReach({ context, pane, scene, theme, zoom }) {
  const { edges } = pane;
  if (!edges.areInReach && edges.focused < 0) return;
  context.globalAlpha = 1;
  context.strokeStyle = context.fillStyle = theme.accent;
  context.lineWidth = Math.max(2.2, 1.5 / zoom);
  for (const edge of [edges.hovered, edges.focused])
    if (edge >= 0 && edge < scene.paths.length) context.stroke(scene.paths[edge]);
  if (!edges.areInReach) return;
  const radius = 4.5 / Math.min(1, zoom);
  for (const edge of edges.offered)
    for (const [x, y] of besideEnds(scene.curves[edge], radius)) {
      context.beginPath();
      context.arc(x, y, radius, 0, 7);
      context.fillStyle = theme.back;
      context.fill();
      context.lineWidth = 1.6 / Math.min(1, zoom);
      context.stroke();
    }
  if (!edges.held) return;
  const { edge, end, at } = edges.held;
  const [fixed, free] = [endsOf(scene.curves[edge])[1 - end], pane.camera.toWorld(at)];
  context.setLineDash([6 / Math.min(1, zoom), 4 / Math.min(1, zoom)]);
  context.lineWidth = Math.max(2.2, 1.5 / zoom);
  context.beginPath();
  context.moveTo(...fixed);
  context.lineTo(...free);
  context.stroke();
  context.setLineDash([]);
}
