// What several files draw with: canvases, fold controls, double lines, texts that fit.

import { CONTROL } from "./scene.js";

export const NEAR = 0.42; // from this zoom on, small things can be read and hit

export function sizeCanvas(canvas, width, height, ratio) {
  const [w, h] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
}

export function showsControls(pane) {
  return pane.foldable && pane.camera.zoom > NEAR;
}

export function paintControl(context, theme, x, y, sign, busy) {
  context.beginPath();
  context.roundRect(x, y, CONTROL, CONTROL, 4);
  context.fillStyle = theme.back;
  context.fill();
  context.lineWidth = 1;
  context.strokeStyle = theme.line;
  context.stroke();
  context.strokeStyle = context.fillStyle = busy ? theme.accent : theme.text;
  const [cx, cy, arm] = [x + CONTROL / 2, y + CONTROL / 2, 3.5];
  context.lineWidth = 1.5;
  context.beginPath();
  if (busy) for (const dx of [-3.5, 0, 3.5]) context.rect(cx + dx - 0.5, cy - 0.5, 1, 1);
  else {
    context.moveTo(cx - arm, cy);
    context.lineTo(cx + arm, cy);
    if (sign === "+") {
      context.moveTo(cx, cy - arm);
      context.lineTo(cx, cy + arm);
    }
  }
  context.stroke();
}

export function strokeTwice(context, theme, zoom, path) {
  for (const [color, least, width] of [[theme.path, 5, 5.5], [theme.back, 2, 2.5]]) {
    context.strokeStyle = color;
    context.lineWidth = Math.max(width, least / zoom);
    context.stroke(path);
  }
}

// The longest text that fits, cut in the middle: both ends of a name tell more than its middle.
export function shorten(context, text, room) {
  if (room <= 0) return "";
  if (context.measureText(text).width <= room) return text;
  const letters = Array.from(text);
  let [low, high] = [0, letters.length];
  const cut = (keep) => letters.slice(0, Math.ceil(keep / 2)).join("") + "…" + letters.slice(letters.length - Math.floor(keep / 2)).join("");
  while (low < high) {
    const keep = (low + high + 1) >> 1;
    if (context.measureText(cut(keep)).width <= room) low = keep;
    else high = keep - 1;
  }
  return cut(low);
}
