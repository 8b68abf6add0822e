import assert from "node:assert/strict";
import { test } from "node:test";

import { besideEnds, endsOf, middleOf } from "../../fxopt/ui/component/curves.js";
import { CONTROL, Scene } from "../../fxopt/ui/component/scene.js";
import { Picture } from "../../fxopt/ui/component/sides.js";
import { restored } from "../../fxopt/ui/component/unpack.js";
import { twoGraphs, withoutBrowser } from "./layouts.js";

withoutBrowser();

test("a node is found in its own box, or in that of the folded module around it", () => {
  const scene = new Scene(twoGraphs());
  assert.equal(scene.find("b"), 1);
  assert.equal(scene.find("c2"), 2);
  assert.equal(scene.find("@m"), 2);
  assert.equal(scene.find("nowhere"), -1);
});

test("inputs and users follow the edges, and operands stand at theirs", () => {
  const scene = new Scene(twoGraphs());
  assert.deepEqual(scene.users, [[1, 3], [2], [], [2]]);
  assert.deepEqual(scene.inputs, [[], [0], [1, 3], [0]]);
  assert.deepEqual(scene.operands, ["", "2", "", "1"]);
});

test("a point hits the box that holds it, and the fold control only where that is drawn", () => {
  const scene = new Scene(twoGraphs());
  assert.equal(scene.boxAt(50, 75), 1);
  assert.equal(scene.boxAt(110, 75), -1);
  const [x, y] = scene.control("m") ?? [NaN, NaN];
  assert.equal(scene.foldAt(x + CONTROL / 2, y + CONTROL / 2), "m");
  assert.equal(scene.foldAt(5, 135), null);
  assert.equal(scene.foldAt(0, 60), null);
  assert.equal(scene.control("nowhere"), undefined);
});

test("each side shows what its graph has, in one place", () => {
  const picture = new Picture(twoGraphs());
  const [before, after, both] = /** @type {const} */ (["before", "after", "both"]).map((side) => picture.scene(side));
  assert.deepEqual(before.names, ["a", "b", "@m"]);
  assert.deepEqual(after.names, ["a", "@m", "d"]);
  assert.deepEqual(both.names, ["a", "b", "@m", "d"]);
  for (const scene of [before, after])
    for (const name of scene.names) assert.deepEqual(scene.rect(scene.find(name)), both.rect(both.find(name)));
  assert.deepEqual([before.caption, after.caption, both.caption], ["first", "second", "both"]);
  assert.equal(picture.scene("after"), after);
});

test("a side tells the texts and members of its own graph", () => {
  const picture = new Picture(twoGraphs());
  const [before, after, both] = /** @type {const} */ (["before", "after", "both"]).map((side) => picture.scene(side));
  assert.equal(before.titles[before.find("@m")], "m");
  assert.equal(after.titles[after.find("@m")], "m, merged");
  assert.equal(after.find("c2"), -1);
  assert.equal(both.find("c2"), both.find("c1"));
  assert.deepEqual(both.boxStates, ["", "removed", "", "created"]);
  assert.deepEqual(both.edgeStates, ["removed", "removed", "created", "created"]);
});

test("edges join the boxes of the side, and a frame that is emptied goes", () => {
  const picture = new Picture(twoGraphs());
  const after = picture.scene("after");
  assert.deepEqual(after.users[after.find("a")], [after.find("d")]);
  assert.deepEqual(after.inputs[after.find("@m")], [after.find("d")]);
  assert.deepEqual(after.frames, []);
  assert.equal(picture.scene("before").frames.length, 1);
});

test("the number of a box in the whole leads to its place in a side, and back", () => {
  const after = new Picture(twoGraphs()).scene("after");
  assert.deepEqual([0, 1, 2, 3].map((number) => after.placeOf(number)), [0, -1, 1, 2]);
  assert.deepEqual([0, 1, 2].map((i) => after.numberOf(i)), [0, 2, 3]);
});

test("numbers that come as differences are restored", () => {
  const packed = { boxes: [10, 20, 100, 30, 0, 60, 100, 30], ends: [0, 1], curves: [[0, 0, 0, 30]] };
  assert.deepEqual(restored(packed), {
    boxes: [10, 20, 100, 30, 10, 80, 100, 30],
    ends: [0, 1],
    curves: [[60, 50, 60, 80]],
  });
});

test("a node that was replaced under its name has it on each side, and both boxes where both are seen", () => {
  const payload = twoGraphs();
  payload.names[1] = "d~";
  if (payload.sides) payload.sides.replaced = [1, 3];
  const picture = new Picture(payload);
  assert.deepEqual(picture.scene("before").names, ["a", "d", "@m"]);
  assert.deepEqual(picture.scene("after").names, ["a", "@m", "d"]);
  assert.deepEqual(picture.scene("both").names, ["a", "d~", "@m", "d"]);
});

test("a point hits the edge that comes nearest, and its end where that is near", () => {
  const scene = new Scene(twoGraphs());
  scene.curves.forEach((curve, edge) => {
    const [x, y] = middleOf(curve);
    assert.equal(scene.edgeAt(x + 0.5, y, 3), edge);
    assert.equal(scene.edgeAt(x, y, 3, new Set([edge])), -1);
    endsOf(curve).forEach(([ex, ey], end) => {
      assert.equal(scene.endAt(edge, ex, ey + 1, 3), end);
      assert.equal(scene.endAt(edge, ex, ey + 900, 3), -1);
    });
  });
  assert.equal(scene.edgeAt(-900, -900, 3), -1);
});

test("the edges of a box are those to its users, then those from its inputs", () => {
  const scene = new Scene(twoGraphs());
  assert.deepEqual(scene.edgesAround(1), [1, 0]);
  assert.deepEqual(scene.edgesAround(0), [0, 2]);
  assert.deepEqual(scene.edgesAround(-1), [0, 1, 2, 3]);
});

test("the grips of an edge stand beside its ends, outside of the boxes, and on a short edge no farther than its middle", () => {
  assert.deepEqual(besideEnds([50, 30, 50, 60], 5), [[50, 35], [50, 55]]);
  assert.deepEqual(besideEnds([0, 0, 0, 10, 8, 10, 8, 20], 5), [[0, 5], [8, 15]]);
  assert.deepEqual(besideEnds([50, 30, 50, 36], 5), [[50, 33], [50, 33]]);
});
