import assert from "node:assert/strict";
import { test } from "node:test";

import { Acts } from "../../fxopt/ui/component/acts.js";

test("an act is sent again until Python has acknowledged it", () => {
  const acts = new Acts();
  acts.take({ session: "s", heard: 7 });
  assert.deepEqual(acts.add("select", "a"), { session: "s", acts: [[8, "select", "a"]] });
  assert.deepEqual(acts.add("fold", "m").acts, [[8, "select", "a"], [9, "fold", "m"]]);
  acts.take({ session: "s", heard: 8 });
  assert.deepEqual(acts.add("select", "b").acts, [[9, "fold", "m"], [10, "select", "b"]]);
  acts.take({ session: "s", heard: 10 });
  assert.deepEqual(acts.waiting, []);
});

test("numbers go on from what another page of the same visitor did", () => {
  const acts = new Acts();
  acts.take({ heard: 30 });
  assert.deepEqual(acts.add("Enter"), { session: "", acts: [[31, "Enter"]] });
});

test("acts beyond the most that Python does of one message are dropped", () => {
  const acts = new Acts();
  for (let i = 0; i < 100; i++) acts.add("ArrowDown");
  assert.equal(acts.isFull, true);
  assert.equal(acts.waiting.length, 64);
  acts.take({ heard: 1 });
  assert.equal(acts.add("ArrowUp").acts.at(-1)?.[0], 65);
});

test("acts in another session are sent no longer, but for those on the page, and their numbers are not used again", () => {
  const acts = new Acts(["step"]);
  acts.take({ session: "s", heard: 6 });
  acts.add("step", "?model=a");
  acts.add("on", "A");
  assert.equal(acts.take({ session: "s", heard: 6 }), true);
  assert.equal(acts.waiting.length, 2);
  assert.equal(acts.take({ session: "t", heard: 6 }), false);
  assert.deepEqual(acts.add("on", "B"), { session: "t", acts: [[7, "step", "?model=a"], [9, "on", "B"]] });
});
