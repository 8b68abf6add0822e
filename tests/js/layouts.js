// A layout of two graphs, small enough to be written down: `c` is folded around two nodes; `b` is in the first graph
// alone, `d` in the second alone.

/** @returns {import("../../fxopt/ui/component/scene.js").Payload} */
export function twoGraphs() {
  return {
    id: "x", width: 200, height: 300, caption: "both", note: "",
    kinds: [["io", "input or output"], ["linear", "linear layer"], ["group", "folded module"]],
    names: ["a", "b", "@m", "d"],
    kind: [0, 1, 2, 1],
    titles: ["a", "b", "m", "d"],
    subtitles: ["", "Linear", "2 nodes", "Linear"],
    modules: { table: ["", "m"], of: [0, 0, 0, 0] },
    groups: { 2: ["m", "c1 c2"] },
    boxes: [0, 0, 100, 30, 0, 60, 100, 30, 0, 120, 100, 30, 120, 60, 80, 30],
    ends: [0, 1, 1, 2, 0, 3, 3, 2],
    curves: [[50, 30, 50, 60], [50, 90, 50, 120], [100, 30, 160, 60], [160, 90, 100, 120]],
    portals: [],
    reads: [1, 2, "2", 3, 2, "1"],
    clusters: [["gone", "gone · Block", 0, -5, 55, 110, 40]],
    sides: {
      boxes: [[1], [3]],
      edges: [[0, 1], [2, 3]],
      portals: [[], []],
      retold: { 2: [2, "m, merged", "1 node", "c1"] },
      captions: ["first", "second", "both"],
      reread: [],
    },
  };
}

/** Let modules draw paths where no browser is. */
export function withoutBrowser() {
  class Path {
    moveTo() {}
    lineTo() {}
    bezierCurveTo() {}
    addPath() {}
  }
  Object.assign(globalThis, { Path2D: Path });
}
