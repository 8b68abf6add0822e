// The entry of the component that carries this code. What it unpacks is kept on the page under the layout's id, for the
// views (mount.js), which carry ids and marks only.

import { foresee, listenToActs } from "./foreseen.js";
import "./ghosts.js";
import { Pane } from "./pane.js";
import { fxopt } from "./shared.js";
import { Picture } from "./sides.js";
import { unpack } from "./unpack.js";

const KEPT = 24; // layouts

fxopt.layouts ??= new Map();
fxopt.panes ??= new WeakMap();
fxopt.awaited ??= new Map();
fxopt.seen ??= new Map(); // what was told of pictures, by their digests
fxopt.actedAt ??= -Infinity;
if (!fxopt.foresee) listenToActs();
fxopt.foresee = foresee;

function keep(payload) {
  const known = fxopt.layouts.get(payload.id);
  if (known) {
    fxopt.layouts.delete(payload.id);
    fxopt.layouts.set(payload.id, known); // as the one that was used last
    return;
  }
  while (fxopt.layouts.size >= KEPT) fxopt.layouts.delete(fxopt.layouts.keys().next().value);
  fxopt.layouts.set(payload.id, new Picture(payload));
  for (const [pane, retry] of [...fxopt.awaited]) {
    fxopt.awaited.delete(pane);
    retry();
  }
}

// Shows `data` in `parentElement`. Called again on each change; the pane stays, and with it what the visitor sees.
fxopt.show = ({ data, parentElement, setStateValue }) => {
  let pane = fxopt.panes.get(parentElement);
  if (!pane) {
    pane = new Pane(parentElement);
    fxopt.panes.set(parentElement, pane);
    fxopt.views.push(pane);
    fxopt.panesChanged?.();
  }
  const render = () => {
    const picture = fxopt.layouts.get(data.layout);
    if (picture) pane.update(data, setStateValue, picture.scene(data.side ?? "after"));
    else fxopt.awaited.set(pane, render);
  };
  fxopt.awaited.delete(pane);
  render();
  return () => {
    pane.end();
    fxopt.awaited.delete(pane);
    fxopt.panes.delete(parentElement);
    fxopt.views.splice(fxopt.views.indexOf(pane), 1);
    fxopt.panesChanged?.();
  };
};

// A layout that layouts.js brings.
fxopt.take = (bytes) => unpack(bytes).then(keep);

for (const bytes of (fxopt.packed ??= []).splice(0)) fxopt.take(bytes);
for (const show of fxopt.waiting.splice(0)) show();

export default function () {}
