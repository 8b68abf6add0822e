// What keeps its place on the screen.

import { fxopt } from "./shared.js";

// A new pane looks where another pane of the same model does, or the last one did: going to two panes side by side and
// back loses no place. Gives that pane's scene, and moves the camera; null where there is none.
export function placeOfAnother(pane) {
  const { subject } = pane;
  const [width] = pane.stageSize();
  const other = fxopt.views.find((one) => one !== pane && one.view.homeDone && one.subject === subject)?.view.seen ?? fxopt.left;
  if (other?.subject !== subject || !subject || !width || !other.size[0]) return null;
  Object.assign(pane.camera, other.camera);
  pane.camera.x += (width - other.size[0]) / 2; // what is at the top stays there: graphs are read from it downwards
  pane.camera.keepAcross(other.scene, other.size[0], width, pane.theme.scale);
  return other.scene;
}

// What keeps its place on the screen when a layout gives way to another of the same model: the control of the module
// that is folded or unfolded, else the selected box, else the shared box nearest to the middle.
export function anchorBetween(before, after, pane) {
  const { camera } = pane;
  // Another side of one layout: all that both have stands in one place, apart from nodes that have two boxes.
  if (before.id === after.id) return { screen: camera.toScreen([0, 0]), to: [0, 0] };
  const control = pane.pending && [before.control(pane.pending), after.control(pane.pending)];
  if (control?.[0] && control[1]) return { screen: camera.toScreen(control[0]), to: control[1] };
  const pair = (i, name = before.names[i]) => {
    const other = after.find(name);
    return other < 0 ? null : { screen: camera.toScreen(before.center(i)), to: after.center(other) };
  };
  if (pane.selected >= 0 && pane.view.shows(pane.selected)) {
    // A node that a folded module hid before stands where the module did.
    const found = pair(pane.selected) ?? (pane.selectedName && pair(pane.selected, pane.selectedName));
    if (found) return found;
  }
  const [width, height] = pane.stageSize();
  const [x, y] = camera.toWorld([width / 2, height / 2]);
  let [best, least] = [-1, Infinity];
  for (let i = 0; i < before.count; i++) {
    if (after.find(before.names[i]) < 0) continue;
    const [cx, cy] = before.center(i);
    const distance = (cx - x) ** 2 + (cy - y) ** 2;
    if (distance < least) [best, least] = [i, distance];
  }
  return best < 0 ? null : pair(best);
}
