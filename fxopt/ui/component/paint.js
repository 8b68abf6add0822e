// Draws a scene. Everything is in world units under the camera's transform; what would be too small to read or
// see at the present zoom is left out or simplified, and what lies outside the stage is not drawn.

import { paintBox } from "./boxes.js";
import { NEAR, paintControl, shorten, showsControls, sizeCanvas } from "./draw.js";
import { paintEdgesInReach } from "./edges.js";
import { paintBecame, paintEdges, paintPath } from "./lines.js";
import { CONTROL } from "./scene.js";

const NONE = new Set();

export function paint(context, pane) {
  const { camera, theme } = pane;
  const { moment } = pane.player;
  const { scene } = moment ?? pane;
  const [width, height] = pane.stageSize();
  const ratio = devicePixelRatio || 1;
  sizeCanvas(context.canvas, width, height, ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  const zoom = camera.zoom;
  context.setTransform(ratio * zoom, 0, 0, ratio * zoom, ratio * camera.x, ratio * camera.y);
  const [left, top] = camera.toWorld([0, 0]);
  const [right, bottom] = camera.toWorld([width, height]);
  const frame = {
    context, pane, scene, theme, zoom,
    outside: (x, y, w, h) => x > right || y > bottom || x + w < left || y + h < top,
    moving: pane.motion ? pane.motion.progress : 1,
    marks: (moment ?? pane).marks,
    unseen: moment?.boxes ?? NONE,
    unseenEdges: moment?.edges ?? NONE,
  };
  paintFrames(frame);
  paintEdges(frame);
  paintPath(frame);
  paintBecame(frame);
  if (zoom < 0.13) paintDots(frame);
  else for (let i = 0; i < scene.count; i++) if (!frame.unseen.has(i)) paintBox(frame, i);
  paintFrameTitles(frame);
  paintEdgesInReach(frame);
  context.globalAlpha = 1;
}

function paintFrames({ context, pane, scene, theme, zoom, outside, moving }) {
  context.globalAlpha = moving;
  for (const frame of scene.frames) {
    const { x, y, w, h, depth } = frame;
    if (outside(x, y, w, h) || h * zoom < 5) continue;
    context.beginPath();
    context.roundRect(x, y, w, h, 9);
    context.fillStyle = frameFill(theme, depth);
    context.fill();
    const chosen = frame === pane.selection.frame;
    context.lineWidth = chosen ? Math.max(3, 2 / zoom) : Math.max(1, 0.7 / zoom);
    context.strokeStyle = chosen ? theme.chosen : theme.frame;
    context.stroke();
  }
}

// Frames in frames take turns, so that deep nesting does not darken the page.
function frameFill(theme, depth) {
  return theme.resolve(`color-mix(in oklab, var(--fx-text) ${depth % 2 ? 6 : 3}%, var(--fx-back))`);
}

function paintFrameTitles({ context, pane, scene, theme, zoom, outside, moving }) {
  context.globalAlpha = moving;
  context.textAlign = "left";
  context.textBaseline = "middle";
  // Titles keep a readable size on the screen while the frame has room for them.
  const size = Math.min(24, Math.max(11, 10 / zoom));
  for (const { x, y, w, h, title, path, depth } of scene.frames) {
    if (outside(x, y, w, h) || w * zoom < 46 || h * zoom < 34) continue;
    const controls = showsControls(pane);
    if (controls) paintControl(context, theme, x + 5, y + 4, "−", pane.pending === path);
    const start = controls ? x + CONTROL + 10 : x + 8;
    context.font = theme.frameFont(size);
    const text = shorten(context, title, w - (start - x) - 6);
    const line = zoom > NEAR ? y + 4 + CONTROL / 2 + 0.5 : y + size * 0.9;
    // A rim in the frame's color, so that lines behind a title do not cross it out.
    context.lineWidth = 3.5 / Math.min(1, zoom);
    context.lineJoin = "round";
    context.strokeStyle = frameFill(theme, depth);
    context.strokeText(text, start, line);
    context.fillStyle = theme.muted;
    context.fillText(text, start, line);
  }
}

// From far away: color only, marked boxes last and never smaller than the eye can find.
function paintDots({ context, pane, scene, theme, zoom, outside, marks: all, unseen }) {
  for (const marked of [false, true]) {
    for (let i = 0; i < scene.count; i++) {
      const marks = all.get(i);
      if (Boolean(marks) !== marked || unseen.has(i)) continue;
      const [x, y, w, h] = pane.shownRect(i);
      if (outside(x, y, w, h)) continue;
      context.globalAlpha = pane.dim && !marked ? 0.3 : 1;
      context.fillStyle = marked ? pane.markColor(marks[0]) : theme.edge(scene.kinds[i]);
      const least = (marked ? 4 : 1) / zoom;
      context.fillRect(x, y, Math.max(w, least), Math.max(h, least));
    }
  }
  if (pane.selected < 0) return;
  const [x, y, w, h] = pane.shownRect(pane.selected);
  context.globalAlpha = 1;
  context.strokeStyle = theme.chosen;
  context.lineWidth = 3 / zoom;
  context.strokeRect(x - 3 / zoom, y - 3 / zoom, w + 6 / zoom, h + 6 / zoom);
}
