// What panes with one `link` share: the place they look at, the selection, and what is pointed at. A box of one graph
// may stand for several of the other: a merged node lights the ones it was made of, and each of them lights it.

import { fxopt } from "./shared.js";

export function linkedTo(pane) {
  return pane.link ? fxopt.views.filter((other) => other !== pane && other.link === pane.link && other.scene) : [];
}

// Bring the other panes to where this one looks. Only panes with one layout can look at the same place, and one that
// has not moved of itself since it last agreed with the others does not call them back.
export function shareCamera(pane) {
  const { x, y, zoom } = pane.camera;
  const agreed = [x, y, zoom].join();
  if (agreed === pane.agreed) return;
  pane.agreed = agreed;
  for (const other of linkedTo(pane)) {
    if (other.layoutId !== pane.layoutId || !other.view.homeDone || other.agreed === agreed) continue;
    Object.assign(other.camera, { x, y, zoom });
    other.view.size = pane.view.size; // its own stage may follow to this size later
    other.agreed = agreed;
    other.draw();
  }
}

// `related` has the boxes that belong together, by their numbers in the whole layout.
export function takeRelated(pane, related) {
  pane.families = new Map();
  for (const family of related)
    for (const number of family) pane.families.set(number, [...(pane.families.get(number) ?? []), ...family]);
}

// Light what belongs to the boxes that are pointed at or selected, here and in the linked panes.
export function light(pane) {
  const panes = [pane, ...linkedTo(pane).filter((other) => other.layoutId === pane.layoutId)];
  const numbers = new Set();
  for (const of of panes)
    for (const i of [of.hovered, of.selected]) {
      if (i < 0) continue;
      const number = of.scene.numberOf(i);
      const family = of.families.get(number) ?? [];
      if (family.length || panes.length > 1) for (const one of [number, ...family]) numbers.add(one);
    }
  for (const of of panes) {
    const lit = new Set([...numbers].map((number) => of.scene.placeOf(number)).filter((i) => i >= 0));
    lit.delete(of.selected);
    if (lit.size === of.lit.size && [...lit].every((i) => of.lit.has(i))) continue;
    of.lit = lit;
    of.draw();
  }
}
