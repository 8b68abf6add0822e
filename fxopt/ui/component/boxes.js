// One box with its labels and its marks. A mark is told by shape as well as by color: an outline is solid where a
// pass matches and dashed where it nearly does, a badge with the pass's letter is filled where it is applied, and a
// bar at the left with a sign says what was created, changed or removed.

import { paintControl, shorten, showsControls, strokeTwice } from "./draw.js";
import { CONTROL } from "./scene.js";

const RINGS = 3;
const HATCH = 9; // between the lines of a preview
export const SIGNS = { created: "+", changed: "~", removed: "−", failed: "!" };

export function paintBox(frame, i) {
  const { context, pane, scene, theme, zoom, outside } = frame;
  const [x, y, w, h] = pane.shownRect(i);
  if (outside(x - 14, y - 14, w + 28, h + 28)) return;
  const marks = frame.marks.get(i) ?? [];
  const chosen = i === pane.selected;
  const lit = pane.lit.has(i);
  const near = chosen || lit || i === pane.hovered || (pane.selected >= 0 && pane.selection.near.has(i));
  const ghost = marks.some(([kind, , count]) => kind === "removed" && count >= (scene.sizes.get(i) ?? 1));
  context.globalAlpha = pane.dim && !marks.length && !near ? 0.28 : ghost ? 0.7 : 1;

  const group = scene.groups.has(i);
  const io = scene.kinds[i] === "io";
  const radius = group ? 11 : io ? h / 2 : 5;
  if (group) paintStack(context, theme, x, y, w, h, radius);
  if (ghost) paintBack(context, theme, x, y, w, h, radius);
  context.beginPath();
  context.roundRect(x, y, w, h, radius);
  context.fillStyle = theme.fill(scene.kinds[i]);
  context.fill();
  context.lineWidth = Math.max(group ? 1.8 : 1, 0.6 / zoom);
  context.strokeStyle = i === pane.hovered ? theme.text : theme.edge(scene.kinds[i]);
  if (scene.boxStates?.[i] === "removed") context.setLineDash([5, 4]);
  context.stroke();
  context.setLineDash([]);
  const foreseen = marks.find((mark) => mark.ghost);
  if (foreseen) paintHatch(frame, pane.markColor(foreseen), x, y, w, h, radius);
  if (ghost) context.globalAlpha = 1; // its words are read like all others
  paintLabels(frame, i, x, y, w, h, group);
  if (group && showsControls(pane)) {
    const left = x + w - CONTROL - 6;
    paintControl(context, theme, left, y + (h - CONTROL) / 2, "+", pane.pending === scene.groups.get(i));
  }
  if (pane.path.boxes.has(i)) paintOnPath(frame, x, y, w, h, radius);
  const cost = pane.bars[scene.numberOf(i)];
  if (cost) paintCost(frame, cost, x, y, w, h);
  const rings = marks.filter(([kind]) => !(kind in SIGNS));
  if (marks.length) paintRings(frame, marks, rings, x, y, w, h, radius);
  if (lit) outline(context, x, y, w, h, radius, 4, theme.accent, Math.max(2.6, 1.8 / zoom));
  if (chosen) {
    const gap = 3 + 4 * Math.min(RINGS, rings.length);
    outline(context, x, y, w, h, radius, gap, theme.chosen, Math.max(3.4, 2 / zoom));
  }
  // Last, so that no outline crosses a letter out.
  if (rings.length && zoom > 0.3) paintBadges(frame, rings, x + w + 5, y);
}

// What a box costs, as a bar along its lower side: never its fill, which tells the kind.
function paintCost({ context, theme, zoom }, [share], x, y, w, h) {
  const [left, width, height] = [x + 7, w - 14, Math.max(2.6, 1.6 / zoom)];
  context.fillStyle = theme.rule;
  context.fillRect(left, y + h - height - 1, width, height);
  context.fillStyle = theme.text;
  context.fillRect(left, y + h - height - 1, Math.max(1.5, width * share), height);
}

// A box on the critical path has the double line of the way around it.
function paintOnPath({ context, theme, zoom }, x, y, w, h, radius) {
  const path = new Path2D();
  path.roundRect(x, y, w, h, radius);
  strokeTwice(context, theme, zoom, path);
}

// A preview is hatched: it is not so yet.
function paintHatch({ context, zoom }, color, x, y, w, h, radius) {
  context.save();
  context.beginPath();
  context.roundRect(x, y, w, h, radius);
  context.clip();
  context.beginPath();
  for (let at = x - h; at < x + w; at += HATCH) {
    context.moveTo(at, y + h);
    context.lineTo(at + h, y);
  }
  context.globalAlpha *= 0.4;
  context.strokeStyle = color;
  context.lineWidth = Math.max(1.5, 1 / zoom);
  context.stroke();
  context.restore();
}

// A ghost lets the page shine through, but no line.
function paintBack(context, theme, x, y, w, h, radius) {
  const alpha = context.globalAlpha;
  context.globalAlpha = 1;
  context.beginPath();
  context.roundRect(x, y, w, h, radius);
  context.fillStyle = theme.back;
  context.fill();
  context.globalAlpha = alpha;
}

// A folded module looks like a pile.
function paintStack(context, theme, x, y, w, h, radius) {
  context.beginPath();
  context.roundRect(x + 4, y + 4, w, h, radius);
  context.fillStyle = theme.faint;
  context.fill();
  context.lineWidth = 1;
  context.strokeStyle = theme.edge("group");
  context.stroke();
}

function paintLabels({ context, scene, theme, zoom }, i, x, y, w, h, group) {
  if (zoom < 0.4) return;
  context.textAlign = "center";
  context.textBaseline = "alphabetic";
  const room = w - 12 - (group ? CONTROL + 6 : 0);
  const middle = x + (w - (group ? CONTROL + 4 : 0)) / 2;
  const subtitle = scene.subtitles[i];
  const line = y + h / 2 + (subtitle ? -2.5 : 4);
  context.font = group ? theme.groupFont : theme.titleFont;
  context.fillStyle = theme.text;
  context.fillText((scene.fitted.title[i] ??= shorten(context, scene.titles[i], room)), middle, line);
  if (!subtitle || zoom < 0.5) return;
  context.font = theme.textFont;
  context.fillStyle = theme.muted;
  context.fillText((scene.fitted.subtitle[i] ??= shorten(context, subtitle, room)), middle, line + 13.5);
}

function outline(context, x, y, w, h, radius, gap, color, width, dash = []) {
  context.beginPath();
  context.roundRect(x - gap, y - gap, w + 2 * gap, h + 2 * gap, radius + gap);
  context.setLineDash(dash);
  context.lineWidth = width;
  context.strokeStyle = color;
  context.stroke();
  context.setLineDash([]);
}

function paintRings({ context, pane, theme, zoom }, marks, rings, x, y, w, h, radius) {
  const width = Math.max(2.4, 1.6 / zoom);
  // Three passes on one box is the most that rings can tell apart; badges go on.
  rings.slice(0, RINGS).forEach(([kind, pass], number) => {
    const dash = kind === "miss" ? [5, 4] : [];
    outline(context, x, y, w, h, radius, 2 + 4 * number, pane.markColor([kind, pass]), width, dash);
  });
  for (const [kind] of marks)
    if (kind in SIGNS) paintBar(context, theme, x, y, h, pane.markColor([kind]), SIGNS[kind], zoom);
}

function paintBadges({ context, pane, theme }, rings, right, y) {
  for (const [kind, pass, count] of rings)
    right -= paintBadge(context, theme, right, y, kind, pane.styles[pass], pane.markColor([kind, pass]), count) + 3;
}

function paintBadge(context, theme, right, y, kind, style, color, count) {
  const text = (style?.[1] ?? "?") + (kind === "miss" ? "?" : "") + (count > 1 ? ` ${count}` : "");
  context.font = theme.badgeFont;
  const width = Math.max(15, context.measureText(text).width + 8);
  context.beginPath();
  context.roundRect(right - width, y - 10, width, 15, kind === "applied" ? 7.5 : 4);
  context.fillStyle = kind === "applied" ? color : theme.back;
  context.fill();
  context.lineWidth = 1.6;
  context.strokeStyle = color;
  context.setLineDash(kind === "miss" ? [3, 2] : []);
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = kind === "applied" ? textOn(color) : theme.text;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(text, right - width / 2, y - 2);
  return width;
}

function paintBar(context, theme, x, y, h, color, sign, zoom) {
  context.fillStyle = color;
  context.beginPath();
  context.roundRect(x - 3, y - 2, 6, h + 4, 3);
  context.fill();
  if (zoom < 0.35) return;
  context.beginPath();
  context.arc(x, y + h / 2, 7.5, 0, 7);
  context.fill();
  context.fillStyle = textOn(color);
  context.font = theme.badgeFont;
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.fillText(sign, x, y + h / 2 + 0.5);
}

// Black or white, whichever reads better on a color (WCAG's relative luminance).
const texts = new Map();
export function textOn(color) {
  let known = texts.get(color);
  if (known) return known;
  const canvas = new OffscreenCanvas(1, 1);
  const context = canvas.getContext("2d");
  context.fillStyle = color;
  context.fillRect(0, 0, 1, 1);
  const [r, g, b] = Array.from(context.getImageData(0, 0, 1, 1).data, (value) => {
    const part = value / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  known = 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
  texts.set(color, known);
  return known;
}
