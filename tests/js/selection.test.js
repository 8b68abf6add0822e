import assert from "node:assert/strict";
import { test } from "node:test";

import { Scene } from "../../fxopt/ui/component/scene.js";
import { boxOf, Selection } from "../../fxopt/ui/component/selection.js";
import { twoGraphs, withoutBrowser } from "./layouts.js";

withoutBrowser();

test("a selected box has its neighbors, and a name in a folded module has the module's box", () => {
  const [scene, selection] = [new Scene(twoGraphs()), new Selection()];
  selection.choose(scene, boxOf(scene, "c1"));
  assert.equal(selection.box, 2);
  assert.deepEqual([...selection.near].sort(), [1, 3]);
  assert.equal(boxOf(scene, null), -1);
  assert.equal(boxOf(scene, "nowhere"), -1);
});

test("a module that was selected folded is its frame once it is open", () => {
  const [scene, selection] = [new Scene(twoGraphs()), new Selection()];
  selection.name = "@gone";
  selection.choose(scene, boxOf(scene, "@gone"));
  assert.equal(selection.box, -1);
  assert.equal(selection.frame?.path, "gone");
  selection.name = "a";
  selection.choose(scene, boxOf(scene, "a"));
  assert.equal(selection.frame, null);
});

test("the echo of a click does not undo a later one", () => {
  const selection = new Selection();
  for (const name of ["a", "b"]) {
    selection.name = name;
    selection.sent.push(name);
  }
  assert.equal(selection.take("a"), false);
  assert.equal(selection.name, "b");
  assert.equal(selection.take("b"), false);
  assert.deepEqual(selection.sent, []);
});

test("a name that was not sent is taken once", () => {
  const selection = new Selection();
  assert.equal(selection.take(null), true);
  assert.equal(selection.take("a"), true);
  assert.equal(selection.name, "a");
  selection.name = "b"; // the visitor selects something else, and Python draws again what it said
  assert.equal(selection.take("a"), false);
  assert.equal(selection.name, "b");
});
