// Draws the lines between boxes: edges with their heads and operands, the critical path, and the ways from nodes that are
// gone to those that do their work.

import { NEAR, strokeTwice } from "./draw.js";

const SMEARED = 0.03; // below this zoom, MANY edges are a gray smear that takes long to draw
const MANY = 3000;

export function paintEdges({ context, pane, scene, theme, zoom, outside, moving, unseenEdges }) {
  const strength = pane.dim ? 0.35 : 1;
  context.globalAlpha = strength * moving * (zoom < 0.13 ? 0.5 : 1);
  context.strokeStyle = theme.line;
  context.lineWidth = Math.max(1.1, 0.6 / zoom);
  if (zoom < SMEARED && scene.curves.length > MANY) return;
  if (zoom < 0.2) context.stroke(scene.allEdges);
  else {
    const heads = zoom > 0.35 ? new Path2D() : null;
    const seen = new Path2D();
    const other = scene.edgeStates && { removed: new Path2D(), created: new Path2D() };
    for (let edge = 0; edge < scene.paths.length; edge++) {
      const [left, top, right, bottom] = scene.bounds.subarray(4 * edge, 4 * edge + 4);
      if (unseenEdges.has(edge) || outside(left, top, right - left, bottom - top)) continue;
      const state = scene.edgeStates?.[edge];
      (state ? other[state] : seen).addPath(scene.paths[edge]);
      if (heads && state !== "removed") addHead(heads, scene.curves[edge], 5.5);
    }
    context.stroke(seen);
    context.fillStyle = theme.line;
    if (heads) context.fill(heads);
    if (other) paintOneSided(context, theme, zoom, other);
    paintStubs(context, scene, theme, zoom, outside);
    if (zoom > NEAR) paintOperands(context, scene, theme, outside, unseenEdges);
  }
  if (pane.selected >= 0) paintSelectedEdges(context, pane, scene, theme, zoom, moving);
}

// The way on which the boxes cost the most, as maps draw a highway: two lines with nothing between.
export function paintPath({ context, pane, scene, theme, zoom, moving }) {
  const { edges, portals } = pane.path;
  if (!edges.length && !portals.length) return;
  context.globalAlpha = moving;
  const way = new Path2D();
  for (const edge of edges) way.addPath(scene.paths[edge]);
  strokeTwice(context, theme, zoom, way);
  const far = new Path2D();
  for (const [source, target] of portals) {
    const [from, to] = [scene.center(source), scene.center(target)];
    far.moveTo(from[0], from[1]);
    far.lineTo(to[0], to[1]);
  }
  context.setLineDash([9 / Math.min(1, zoom), 6 / Math.min(1, zoom)]);
  strokeTwice(context, theme, zoom, far);
  context.setLineDash([]);
}

// In a picture of two graphs: what is gone is dashed, what is new is bold.
function paintOneSided(context, theme, zoom, { removed, created }) {
  const width = context.lineWidth;
  context.strokeStyle = theme.removed;
  context.setLineDash([5 / Math.min(1, zoom), 4 / Math.min(1, zoom)]);
  context.stroke(removed);
  context.setLineDash([]);
  context.strokeStyle = theme.created;
  context.lineWidth = 1.7 * width;
  context.stroke(created);
  context.lineWidth = width;
  context.strokeStyle = context.fillStyle = theme.line;
}

// From a node that is gone to those that do its work: dashed, with an open head.
export function paintBecame({ context, pane, scene, theme, zoom, moving }) {
  if (!scene.boxStates || zoom < 0.2) return;
  const [lines, heads] = [new Path2D(), new Path2D()];
  for (const [old, now] of pane.became) {
    if (scene.boxStates[old] !== "removed" || now < 0) continue;
    const points = wayBetween(scene.rect(old), scene.rect(now));
    lines.moveTo(points[0], points[1]);
    lines.bezierCurveTo(points[2], points[3], points[4], points[5], points[6], points[7]);
    addOpenHead(heads, points, 8);
  }
  context.globalAlpha = moving;
  context.strokeStyle = theme.became;
  context.lineWidth = Math.max(2, 1.2 / zoom);
  context.setLineDash([7 / Math.min(1, zoom), 5 / Math.min(1, zoom)]);
  context.stroke(lines);
  context.setLineDash([]);
  context.stroke(heads);
}

// Down to a box below, up to one above, and across to one beside.
function wayBetween([x, y, w, h], [x2, y2, w2, h2]) {
  const [cx, cx2] = [x + w / 2, x2 + w2 / 2];
  if (y2 >= y + h) return bow([cx, y + h], [cx2, y2], 0, 1);
  if (y2 + h2 <= y) return bow([cx, y], [cx2, y2 + h2], 0, -1);
  return cx2 >= cx ? bow([x + w, y + h / 2], [x2, y2 + h2 / 2], 1, 0) : bow([x, y + h / 2], [x2 + w2, y2 + h2 / 2], -1, 0);
}

function bow([x, y], [x2, y2], dx, dy) {
  const reach = Math.max(12, Math.abs(dx ? x2 - x : y2 - y) / 2);
  return [x, y, x + dx * reach, y + dy * reach, x2 - dx * reach, y2 - dy * reach, x2, y2];
}

function addOpenHead(path, points, size) {
  const [x, y, dx, dy] = headOf(points);
  const [ux, uy] = [dx * size, dy * size];
  path.moveTo(x - ux - uy * 0.55, y - uy + ux * 0.55);
  path.lineTo(x, y);
  path.lineTo(x - ux + uy * 0.55, y - uy - ux * 0.55);
}

function paintSelectedEdges(context, pane, scene, theme, zoom, moving) {
  const chosen = pane.selected;
  context.globalAlpha = moving;
  context.strokeStyle = context.fillStyle = theme.chosen;
  context.lineWidth = Math.max(2.2, 1.4 / zoom);
  const heads = new Path2D();
  for (const edge of scene.edgesOf[chosen]) {
    context.stroke(scene.paths[edge]);
    addHead(heads, scene.curves[edge], 8);
  }
  context.fill(heads);
  context.setLineDash([6 / Math.min(1, zoom), 4 / Math.min(1, zoom)]);
  for (const [source, target] of scene.portalsOf[chosen]) {
    context.beginPath();
    context.moveTo(...scene.center(source));
    context.lineTo(...scene.center(target));
    context.stroke();
  }
  context.setLineDash([]);
}

// Portal edges: a short dashed stub at both ends; selecting either end draws the whole.
function paintStubs(context, scene, theme, zoom, outside) {
  if (zoom < 0.35) return;
  context.setLineDash([2.5, 2.5]);
  context.beginPath();
  const dots = new Path2D();
  for (let i = 0; i < scene.count; i++) {
    if (!scene.portalsOf[i].length) continue;
    const [x, y, w, h] = scene.rect(i);
    if (outside(x - 14, y - 14, w + 28, h + 28)) continue;
    if (scene.portalsOf[i].some(([source]) => source === i)) {
      context.moveTo(x + w - 12, y + h);
      context.lineTo(x + w - 12, y + h + 10);
      dots.moveTo(x + w - 9.5, y + h + 12);
      dots.arc(x + w - 12, y + h + 12, 2.5, 0, 7);
    }
    if (scene.portalsOf[i].some(([, target]) => target === i)) {
      context.moveTo(x + 12, y - 10);
      context.lineTo(x + 12, y);
      dots.moveTo(x + 14.5, y - 12);
      dots.arc(x + 12, y - 12, 2.5, 0, 7);
    }
  }
  context.stroke();
  context.setLineDash([]);
  context.fill(dots);
}

// Beside the head of an edge: which operands of its box come along it, or how often.
function paintOperands(context, scene, theme, outside, unseenEdges) {
  context.font = theme.frameFont(9);
  context.textBaseline = "middle";
  context.lineWidth = 3;
  context.lineJoin = "round";
  context.strokeStyle = theme.back;
  context.fillStyle = theme.muted;
  const tell = (text, x, y, align) => {
    context.textAlign = align;
    context.strokeText(text, x, y);
    context.fillText(text, x, y);
  };
  scene.operands.forEach((text, edge) => {
    if (!text || unseenEdges.has(edge)) return;
    const [x, y, ux, uy] = headOf(scene.curves[edge]);
    if (outside(x - 50, y - 30, 100, 50)) return;
    const flat = Math.abs(ux) > 0.85; // it comes from beside the box, where a neighbor may stand: above it is room
    const side = ux > 0.05 !== flat ? -1 : 1; // the outer one, so that the texts of two edges that meet stand apart
    const [away, align] = flat ? [7, "center"] : [5, side < 0 ? "right" : "left"];
    tell(text, x - 14 * ux + away * side * uy, y - 14 * uy - away * side * ux, align);
  });
  for (let i = 0; i < scene.count; i++) {
    const texts = scene.portalsOf[i].map(([source, target]) => (target === i && scene.reads.get(`${source} ${i}`)) || "");
    const [x, y] = scene.rect(i);
    const text = texts.filter(Boolean).join(", ");
    if (text && !outside(x - 8, y - 20, 80, 24)) tell(text, x + 17, y - 7, "left");
  }
}

// The end of a curve, and the direction in which it comes there.
function headOf(points) {
  const end = points.length;
  const [x, y] = [points[end - 2], points[end - 1]];
  let [dx, dy] = [x - points[end - 4], y - points[end - 3]];
  if (!dx && !dy) [dx, dy] = [x - points[0], y - points[1]];
  const length = Math.hypot(dx, dy) || 1;
  return [x, y, dx / length, dy / length];
}

function addHead(path, points, size) {
  const [x, y, dx, dy] = headOf(points);
  const [ux, uy] = [dx * size, dy * size];
  path.moveTo(x, y);
  path.lineTo(x - ux - uy * 0.5, y - uy + ux * 0.5);
  path.lineTo(x - ux + uy * 0.5, y - uy - ux * 0.5);
  path.closePath();
}
