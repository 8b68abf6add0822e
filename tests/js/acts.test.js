import assert from "node:assert/strict";
import { test } from "node:test";

import { Acts } from "../../fxopt/ui/component/acts.js";

test("an act is sent again until Python has acknowledged it", () => {
  const acts = new Acts(7);
  assert.deepEqual(acts.add("select", "a"), [[8, "select", "a"]]);
  assert.deepEqual(acts.add("fold", "m"), [[8, "select", "a"], [9, "fold", "m"]]);
  acts.heard(8);
  assert.deepEqual(acts.add("select", "b"), [[9, "fold", "m"], [10, "select", "b"]]);
  acts.heard(10);
  assert.deepEqual(acts.waiting, []);
});

test("numbers go on from what another page of the same visitor did", () => {
  const acts = new Acts();
  acts.heard(30);
  assert.deepEqual(acts.add("Enter"), [[31, "Enter"]]);
});

test("acts beyond the most that Python does of one message are dropped", () => {
  const acts = new Acts();
  for (let i = 0; i < 100; i++) acts.add("ArrowDown");
  assert.equal(acts.isFull, true);
  assert.equal(acts.waiting.length, 64);
  acts.heard(1);
  assert.equal(acts.add("ArrowUp").at(-1)?.[0], 65);
});

test("acts that are dropped are sent no longer, and their numbers are not used again", () => {
  const acts = new Acts(7);
  acts.add("on", "A");
  acts.drop();
  assert.deepEqual(acts.add("on", "B"), [[9, "on", "B"]]);
});
