import assert from "node:assert/strict";
import { test } from "node:test";

import { paintBox } from "../../fxopt/ui/component/boxes.js";
import { Picture } from "../../fxopt/ui/component/sides.js";
import { twoGraphs, withoutBrowser } from "./layouts.js";

withoutBrowser();

const scene = new Picture(twoGraphs()).scene("both");

// The words of a box, each with the opacity in which it is painted.
function painted(name, marks, dim = false) {
  const words = new Map();
  const kept = { globalAlpha: 1, measureText: () => ({ width: 10 }), getImageData: () => ({ data: [0, 0, 0, 255] }) };
  kept.fillText = (text) => words.set(text, kept.globalAlpha);
  const context = new Proxy(kept, { get: (target, key) => target[key] ?? (() => {}) });
  Object.assign(globalThis, { OffscreenCanvas: class { getContext() { return context; } } });
  const i = scene.find(name);
  const pane = {
    shownRect: () => [0, 0, 100, 30], selected: -1, lit: new Set(), hovered: -1, dim, bars: {},
    path: { boxes: new Set() }, selection: { near: new Set() }, styles: [], markColor: () => "#000",
  };
  const theme = { fill: () => "", edge: () => "" };
  paintBox({ context, pane, scene, theme, zoom: 1, outside: () => false, marks: new Map([[i, marks]]) }, i);
  return words;
}

test("the words of a removed box are read like those of any other, and its frame alone is thin", () => {
  assert.deepEqual([...painted("b", [["removed", 0, 1]])], [["b", 1], ["Linear", 1], ["−", 1]]);
});

test("a box without a mark steps back where others are meant", () => {
  assert.deepEqual([...painted("b", [], true)], [["b", 0.28], ["Linear", 0.28]]);
});
