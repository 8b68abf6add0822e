import assert from "node:assert/strict";
import { test } from "node:test";

import { Picture } from "../../fxopt/ui/component/sides.js";
import { around, lookingAt, marksAt, momentOf } from "../../fxopt/ui/component/staging.js";
import { twoGraphs, withoutBrowser } from "./layouts.js";

withoutBrowser();

const both = new Picture(twoGraphs()).scene("both");
const [a, b, m, d] = ["a", "b", "@m", "d"].map((name) => both.find(name));
const step = { told: "the site", boxes: [b, d] };

test("before the first step nothing is gone and nothing is new yet", () => {
  const moment = momentOf(both, [step], 0);
  assert.deepEqual(moment.boxStates, ["", "", "", ""]);
  assert.deepEqual(moment.edgeStates, ["", "", "", ""]);
  assert.deepEqual([...moment.boxes], [d]);
  assert.deepEqual([...moment.edges].sort(), [2, 3]);
});

test("after the last step all is as in the picture", () => {
  const moment = momentOf(both, [step], 1);
  assert.deepEqual(moment.boxStates, both.boxStates);
  assert.deepEqual(moment.edgeStates, both.edgeStates);
  assert.equal(moment.boxes.size + moment.edges.size + moment.pending.size, 0);
});

test("between two steps the first is done and the second is not", () => {
  const moment = momentOf(both, [{ told: "", boxes: [d] }, { told: "", boxes: [b, d] }], 1);
  assert.equal(moment.boxStates[d], "created", "a box belongs to the first step that has it");
  assert.equal(moment.boxStates[b], "");
  assert.deepEqual([...moment.pending], [b]);
});

test("what no step has changes with the first one", () => {
  assert.equal(momentOf(both, [{ told: "", boxes: [m] }], 0).boxes.has(d), true);
  assert.equal(momentOf(both, [{ told: "", boxes: [m] }], 1).boxes.has(d), false);
});

test("a box whose step is not done tells of no change", () => {
  const marks = new Map([[b, [["removed", 0, 1], ["matched", 1, 1]]], [a, [["applied", 0, 1]]]]);
  assert.deepEqual([...marksAt(/** @type {any} */ (marks), new Set([b]))], [[b, [["matched", 1, 1]]], [a, [["applied", 0, 1]]]]);
});

test("the camera has all boxes of a step in the middle, at a size that can be read", () => {
  const rect = around(both, [b, d]);
  assert.deepEqual(rect, [0, 60, 200, 30]);
  const camera = lookingAt(/** @type {any} */ (rect), 400, 300, 1);
  assert.deepEqual([camera.zoom, camera.x, camera.y], [1, 100, 75]);
  assert.equal(lookingAt([0, 0, 4000, 100], 400, 300, 1).zoom, 0.45);
  assert.equal(around(both, []), null);
});
