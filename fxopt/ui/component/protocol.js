// What Python says of one graph: its layout, marks, costs, selection, and the place to move to. See graph_component.py.

import { anchorBetween } from "./anchors.js";
import { takeRelated } from "./links.js";
import { criticalPath, marksOf } from "./marks.js";
import { Motion, placesBefore } from "./motion.js";
import { boxOf } from "./selection.js";

// Show `data` in a pane, on the boxes of `scene`.
export function showData(pane, data, scene) {
  if (!pane.acts.take(data)) {
    clearTimeout(pane.timer); // of a selection among other nodes
    pane.menu.close();
  }
  pane.key = data.key;
  pane.dim = Boolean(data.dim);
  pane.foldable = data.foldable ?? true;
  pane.link = data.link ?? null;
  pane.title = data.title ?? "Graph";
  pane.note = data.note ?? "";
  pane.legend = data.legend ?? [];
  pane.became = (data.became ?? []).map((pair) => pair.map((number) => scene.placeOf(number)));
  takeRelated(pane, data.related ?? []);
  pane.bars = data.bars ?? {};
  pane.root.style.height = data.height ?? "600px";
  pane.readTheme();
  const isNew = scene !== pane.scene;
  const look = isNew ? adopt(pane, scene, data.subject ?? "") : null;
  pane.stage.setAttribute(
    "aria-label",
    `${pane.title}: ${scene.caption}. Up and down follow the data, left and right go along a row, ` +
      "Enter opens or closes a module, e goes along the edges of a node, slash finds, Space shows everything.",
  );
  takePath(pane, data.path ?? null, isNew);
  takeMarks(pane, data.marks ?? {}, isNew);
  takeSteps(pane, data.steps ?? [], isNew);
  look?.(); // now that the legend, which takes room from the stage, is there
  takeSelection(pane, data.selected ?? null);
  takeMove(pane, data.goneTo ?? ["0", "", "", true]);
  pane.speak();
  pane.paint(); // not in the next frame, before which the browser still draws the rest of the page
}

// Take another scene; returns what is left to do once the stage has its size.
function adopt(pane, scene, subject) {
  const { scene: before, selection, view } = pane;
  const stays = before && subject === pane.subject ? anchorBetween(before, scene, pane) : null;
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const seen = { ...view.camera };
  const folding = stays && before.id !== scene.id ? foldedOrOpened(before, scene) : null;
  if (subject !== pane.subject) pane.moves.clear();
  pane.subject = subject;
  pane.scene = scene;
  pane.pending = null;
  pane.edges.forget();
  pane.at = -1;
  pane.lit = new Set();
  pane.tip.hidden = true;
  const box = pane.middle.getBoundingClientRect();
  pane.map.arrange(scene, box.width, box.height);
  pane.choose(boxOf(scene, selection.name));
  pane.search.again();
  return () => {
    if (!stays) {
      if (selection.box < 0) selection.name = null;
      return view.firstLook();
    }
    view.camera.pin(stays.to, stays.screen);
    if (folding?.part) view.contain(folding.part, stays.screen);
    else if (folding && !(selection.box >= 0 && view.shows(selection.box))) view.gather();
    if (!view.showsAny()) return view.home();
    const from = isCalm ? null : placesBefore(before, scene, seen, view.camera);
    pane.motion = from && new Motion(from, performance.now());
  };
}

// Null where no module was folded or opened; its part of the picture where it was one.
function foldedOrOpened(before, scene) {
  const opened = scene.frames.filter(({ path }) => before.index.has(`@${path}`));
  const folded = before.frames.filter(({ path }) => scene.index.has(`@${path}`));
  if (opened.length + folded.length !== 1) return opened.length || folded.length ? { part: null } : null;
  const [frame] = opened;
  return { part: frame ? [frame.x, frame.y, frame.w, frame.h] : scene.rect(scene.index.get(`@${folded[0].path}`)) };
}

function takeMarks(pane, data, isNew) {
  const key = JSON.stringify([data, pane.dim, pane.note, pane.legend, pane.became]);
  if (key === pane.marksKey && !isNew) return;
  pane.marksKey = key;
  pane.marks = marksOf(pane.scene, data.boxes ?? {});
  pane.styles = data.styles ?? [];
  pane.unseen = data.unseen ?? 0;
  pane.map.stale = true;
  pane.chrome.describe();
  pane.speak();
}

// The sites of the rewrite, to be played one by one.
function takeSteps(pane, data, isNew) {
  const key = JSON.stringify(data);
  if (key === pane.stepsKey && !isNew) return pane.player.refresh();
  pane.stepsKey = key;
  pane.player.take(
    data.map(([told, numbers]) => ({
      told,
      boxes: numbers.map((number) => pane.scene.placeOf(number)).filter((box) => box >= 0),
    })),
  );
}

function takePath(pane, data, isNew) {
  const key = JSON.stringify(data);
  if (key === pane.pathKey && !isNew) return;
  pane.pathKey = key;
  pane.path = criticalPath(pane.scene, data);
  pane.marksKey = ""; // the legend tells of both
  pane.map.stale = true;
}

function takeSelection(pane, name) {
  const { scene, selection, view } = pane;
  if (!selection.take(name)) return;
  const i = boxOf(scene, name);
  if (i === selection.box) return;
  pane.choose(i);
  if (i >= 0 && !view.shows(i)) view.reveal(i);
}

// Move to where Python says, once; and once more if the picture that it is about comes later.
function takeMove(pane, [key, name, told, isSettled]) {
  const { moves, scene, view } = pane;
  if (key === "0" || moves.get(key)) return;
  const i = scene.find(name);
  moves.set(key, isSettled);
  if (told) pane.chrome.say(told);
  if (i < 0) return;
  view.goal = name;
  view.camera.goTo(scene, i, ...pane.stageSize(), pane.theme.scale);
  pane.draw();
}
