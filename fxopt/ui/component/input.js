// Pointer and keys. A drag pans and never selects; a click selects and never pans.

import { showsControls } from "./draw.js";
import { listenToGestures } from "./gestures.js";

const DRAG = 4; // pixels that a pointer may tremble in a click

export function listenToPointer(pane) {
  const { stage } = pane;
  let drag = null;
  const place = (event) => {
    const box = stage.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  listenToGestures(pane, place);
  stage.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary) drag = null;
    if (event.button !== 0 || !event.isPrimary || !pane.scene) return;
    const grip = pane.edges.grip(place(event));
    if (grip) {
      stage.setPointerCapture(event.pointerId);
      pane.edges.take(grip, place(event));
    }
    drag = { at: place(event), x: pane.camera.x, y: pane.camera.y, moved: false };
  });
  stage.addEventListener("pointermove", (event) => {
    if (!pane.scene) return;
    const at = place(event);
    if (!drag) return hover(pane, at);
    const [dx, dy] = [at[0] - drag.at[0], at[1] - drag.at[1]];
    if (!drag.moved && Math.hypot(dx, dy) < DRAG) return;
    if (pane.edges.held) {
      drag.moved = true;
      return pane.edges.move(at);
    }
    if (!drag.moved) {
      drag.moved = true;
      stage.setPointerCapture(event.pointerId);
      stage.classList.add("fx-dragging");
      pane.tip.hidden = true;
    }
    pane.camera.x = drag.x + dx;
    pane.camera.y = drag.y + dy;
    pane.draw();
  });
  const release = (event) => {
    const was = drag;
    drag = null;
    stage.classList.remove("fx-dragging");
    if (pane.edges.held) {
      if (was?.moved && event.type === "pointerup") return pane.edges.drop();
      pane.edges.cancel(); // a press that goes nowhere is a click on what lies there
    }
    if (was && !was.moved && event.type === "pointerup") click(pane, place(event));
  };
  stage.addEventListener("pointerup", release);
  stage.addEventListener("pointercancel", release);
  stage.addEventListener("pointerleave", () => hover(pane, null));
  stage.addEventListener("dblclick", (event) => {
    const at = pane.camera.toWorld(place(event));
    const box = pane.scene.boxAt(...at);
    if (pane.scene.groups.has(box)) pane.toggle(pane.scene.groups.get(box));
  });
}

function click(pane, at) {
  const world = pane.camera.toWorld(at);
  const path = foldAt(pane, world);
  if (path !== null) return pane.toggle(path);
  const box = pane.scene.boxAt(...world);
  if (box !== pane.selected) return pane.select(box, "now");
  pane.choose(box); // the keys are at this box again, not at an edge of it
  pane.draw();
}

function foldAt(pane, world) {
  return showsControls(pane) ? pane.scene.foldAt(...world) : null;
}

function hover(pane, at) {
  const box = at ? pane.scene.boxAt(...pane.camera.toWorld(at)) : -1;
  const path = at ? foldAt(pane, pane.camera.toWorld(at)) : null;
  const edge = at && path === null ? pane.edges.at(at) : -1;
  const grip = at && pane.edges.grip(at);
  pane.edges.hover(grip ? grip.edge : edge);
  pane.stage.style.cursor = grip ? "move" : box >= 0 || edge >= 0 || path !== null ? "pointer" : "";
  if (box !== pane.hovered) {
    pane.hovered = box;
    pane.draw();
  }
  pane.tip.hidden = box < 0 && edge < 0;
  if (pane.tip.hidden) return;
  const { scene } = pane;
  const lines = box < 0 ? [pane.edges.told(edge)] : [scene.titles[box], scene.subtitles[box], scene.groups.get(box) ?? scene.plainName(box)];
  pane.tip.textContent = [...new Set(lines)].filter(Boolean).join("\n");
  const [width, height] = pane.stageSize();
  pane.tip.style.left = `${Math.min(at[0] + 14, Math.max(0, width - pane.tip.offsetWidth - 6))}px`;
  const below = at[1] + 18 + pane.tip.offsetHeight < height;
  pane.tip.style.top = `${below ? at[1] + 18 : at[1] - pane.tip.offsetHeight - 8}px`;
}

export function pressed(pane, event) {
  if (!pane.scene || event.ctrlKey || event.metaKey || event.altKey || event.key === "Tab") return;
  // Streamlit binds r and c (which empties every visitor's cache) on the document.
  event.stopPropagation();
  const act = event.shiftKey && event.key === "F10" ? KEYS.ContextMenu : KEYS[event.key];
  if (!act) return;
  event.preventDefault();
  act(pane, event);
}

const KEYS = {
  "/": (pane) => pane.chrome.find.select(),
  " ": (pane) => pane.view.fit(),
  0: (pane) => pane.view.home(),
  Home: (pane) => pane.view.home(),
  "+": (pane) => pane.view.zoom(1.35),
  "=": (pane) => pane.view.zoom(1.35),
  "-": (pane) => pane.view.zoom(1 / 1.35),
  ArrowDown: (pane) => (pane.edges.focused < 0 ? walk(pane, pane.scene.users) : arrive(pane, pane.edges.endOfFocused(1))),
  ArrowUp: (pane) => (pane.edges.focused < 0 ? walk(pane, pane.scene.inputs) : arrive(pane, pane.edges.endOfFocused(0))),
  ArrowRight: (pane) => (pane.edges.focused < 0 ? sidestep(pane, 1) : pane.edges.step(1)),
  ArrowLeft: (pane) => (pane.edges.focused < 0 ? sidestep(pane, -1) : pane.edges.step(-1)),
  e: (pane) => pane.edges.step(1),
  E: (pane) => pane.edges.step(-1),
  y: (pane) => copyName(pane),
  ContextMenu: (pane) => (pane.edges.focused < 0 ? pane.menu.openAtSelected() : pane.edges.openMenuOfFocused()),
  Delete: (pane) => {
    if (pane.edges.focused >= 0) return; // an edge is not deleted: its target needs an input
    const { scene, selected, foldable } = pane;
    if (selected >= 0 && foldable && !scene.groups.has(selected)) pane.tell("edit delete", scene.plainName(selected));
  },
  p: (pane) => pane.player.play(1),
  ",": (pane) => pane.player.step(-1),
  ".": (pane) => pane.player.step(1),
  Escape: (pane) => {
    if (pane.edges.held) pane.edges.cancel();
    else if (pane.edges.focused >= 0) pane.choose(pane.selected); // back to the box whose edges these are
    else if (pane.selectedName !== null) pane.select(-1, "now");
    pane.draw();
  },
  Enter: (pane, event) => {
    if (pane.edges.focused >= 0) return pane.edges.openMenuOfFocused();
    const { scene, selected } = pane;
    // Opens a folded module; on anything else, or with Shift, folds the module around it.
    const own = event.shiftKey ? undefined : scene.groups.get(selected);
    const path = selected < 0 ? pane.selection.frame?.path : (own ?? scene.modules[selected]);
    if (path) pane.toggle(path);
  },
};

function copyName(pane) {
  const name = pane.selectedName?.replace(/^@|~$/g, "");
  if (!name) return pane.chrome.say("nothing is selected");
  const failed = (error) => pane.chrome.say(`not copied: ${error.message}`);
  if (!navigator.clipboard) return failed({ message: "the browser allows it on a secure page only" });
  navigator.clipboard.writeText(name).then(() => pane.chrome.say(`copied ${name}`), failed);
}

// Along the data, to the neighbor that is nearest.
function walk(pane, neighbors) {
  const { scene, selected } = pane;
  if (!scene.count) return;
  if (selected < 0) return arrive(pane, neighbors === scene.users ? 0 : scene.count - 1);
  const [x, y] = scene.center(selected);
  const distance = (i) => Math.hypot(scene.center(i)[0] - x, scene.center(i)[1] - y);
  const next = [...neighbors[selected]].sort((a, b) => distance(a) - distance(b))[0];
  if (next !== undefined) arrive(pane, next);
}

// To the next box in the same row of the picture.
function sidestep(pane, direction) {
  const { scene, selected } = pane;
  if (selected < 0) return walk(pane, scene.users);
  const [x, y] = scene.center(selected);
  let [best, least] = [-1, Infinity];
  for (let i = 0; i < scene.count; i++) {
    const [cx, cy] = scene.center(i);
    const ahead = (cx - x) * direction;
    if (ahead <= 0 || Math.abs(cy - y) > 40) continue;
    const distance = ahead + 4 * Math.abs(cy - y);
    if (distance < least) [best, least] = [i, distance];
  }
  if (best >= 0) arrive(pane, best);
}

function arrive(pane, i) {
  pane.select(i, "rest");
  pane.view.reveal(i);
}
