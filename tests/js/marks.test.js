import assert from "node:assert/strict";
import { test } from "node:test";

import { criticalPath, marksOf, noPath } from "../../fxopt/ui/component/marks.js";
import { Scene } from "../../fxopt/ui/component/scene.js";
import { Picture } from "../../fxopt/ui/component/sides.js";
import { spokenBox } from "../../fxopt/ui/component/spoken.js";
import { twoGraphs, withoutBrowser } from "./layouts.js";

withoutBrowser();

test("marks come by the numbers of the whole layout", () => {
  const after = new Picture(twoGraphs()).scene("after"); // without the second box
  const marks = marksOf(after, { 1: [["matched", 0, 1]], 3: [["applied", 0, 2]] });
  assert.deepEqual([...marks], [[after.find("d"), [["applied", 0, 2]]]]);
});

test("where both graphs are shown, a box of one alone is marked as such, once", () => {
  const both = new Picture(twoGraphs()).scene("both");
  const marks = marksOf(both, { 3: [["created", 0, 1]] });
  assert.deepEqual(marks.get(both.find("b")), [["removed", -1, 1]]);
  assert.deepEqual(marks.get(both.find("d")), [["created", 0, 1]]);
});

test("a critical path has the edges from box to box", () => {
  const path = criticalPath(new Scene(twoGraphs()), { boxes: [0, 1, 2], told: "9 GFLOP" });
  assert.deepEqual([path.way, path.edges, path.portals, path.told], [[0, 1, 2], [0, 1], [], "9 GFLOP"]);
  assert.deepEqual(criticalPath(new Scene(twoGraphs()), null), noPath());
});

test("an edge that is drawn as a portal is one on the path too", () => {
  const payload = twoGraphs();
  [payload.ends, payload.curves, payload.portals] = [payload.ends.slice(2), payload.curves.slice(1), [0, 1]];
  const path = criticalPath(new Scene(payload), { boxes: [0, 1, 2] });
  assert.deepEqual([path.edges, path.portals], [[0], [[0, 1]]]);
});

test("a box is spoken with all that is known of it", () => {
  const scene = new Scene(twoGraphs());
  const facts = { marks: ["MergeLinears applied"], cost: "3 FLOP", isOnPath: true };
  const told = "b, Linear, 3 FLOP, on the critical path, 1 inputs, 1 users, MergeLinears applied";
  assert.equal(spokenBox(scene, 1, facts), told);
  assert.equal(spokenBox(scene, 0, { marks: [], isOnPath: false }), "a, 0 inputs, 2 users");
});
