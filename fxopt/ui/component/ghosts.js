// A preview: for as long as the visitor points at a pass or a site, its marks stand beside those that are there.
// Nothing is laid out anew, and Python does not hear of it.

import { fxopt } from "./shared.js";

// `marks` are [node name, kind, pass] and null ends the preview; `styles` are as those of the other marks, and `word`
// stands in the graph meanwhile.
fxopt.preview = (marks, styles, word = "PREVIEW") => {
  for (const pane of fxopt.views) if (pane.scene) showGhosts(pane, marks, styles, word);
};

function showGhosts(pane, marks, styles, word) {
  // Marks that Python has sent meanwhile hold; what was kept from before is then out of date.
  if (pane.ghosts && pane.marks === pane.ghosts.shown) Object.assign(pane, pane.ghosts.before);
  pane.ghosts = null;
  if (marks) {
    const before = { marks: pane.marks, styles: pane.styles };
    const shown = new Map([...pane.marks].map(([i, of]) => [i, [...of]]));
    for (const [name, kind, pass] of marks) {
      const i = pane.scene.find(name);
      if (i < 0) continue;
      const of = shown.get(i) ?? shown.set(i, []).get(i);
      const known = of.find((mark) => mark[0] === kind && mark[1] === pass && mark.ghost);
      if (known) known[2] += 1;
      else of.push(Object.assign([kind, pass, 1], { ghost: true }));
    }
    pane.marks = shown;
    pane.styles = styles;
    pane.ghosts = { before, shown };
  }
  pane.root.toggleAttribute("data-preview", Boolean(marks));
  pane.stage.dataset.word = marks ? word : "";
  pane.map.stale = true;
  pane.chrome.describeMarks();
  pane.draw();
}
