import assert from "node:assert/strict";
import { test } from "node:test";

import { largest, recalled, sized, stepped } from "../../fxopt/ui/component/frame_sizes.js";

test("a panel takes the size that it is dragged to, and leaves room for the graph", () => {
  const before = { size: 300, open: true };
  assert.deepEqual(sized("left", 350.4, before, 1280), { size: 350, open: true });
  assert.deepEqual(sized("left", 5000, before, 1280), { size: largest("left", 1280), open: true });
  assert.ok(1280 - largest("left", 1280) >= 380);
});

test("a panel that is dragged to its edge closes, and keeps its size for later", () => {
  const before = { size: 300, open: true };
  assert.deepEqual(sized("right", 40, before, 1280), { size: 300, open: false });
  assert.ok(sized("right", 150, before, 1280).open, "it is no smaller than it can be read");
});

test("the drawer goes up and down by the same steps, and closes below the lowest", () => {
  const up = [];
  let drawer = { size: 200, open: false };
  for (let press = 0; press < 5; press++) up.push((drawer = stepped(drawer, 1, 900)).size);
  assert.deepEqual(up, [270, 450, 620, 620, 620]);
  const down = [];
  for (let press = 0; press < 4; press++) down.push((drawer = stepped(drawer, -1, 900)));
  assert.deepEqual(down.map(({ size, open }) => [size, open]), [[450, true], [270, true], [270, false], [270, false]]);
});

test("what the browser kept is taken only where it is a size", () => {
  const kept = { left: { size: 400, open: false }, right: { size: "wide", open: true }, drawer: { size: 1, open: true }, x: 1 };
  assert.deepEqual(recalled(JSON.stringify(kept)), { left: { size: 400, open: false } });
  assert.deepEqual(recalled('{"beside": {"size": 300, "open": true}}'), { beside: { size: 300, open: true } });
  for (const text of [null, "", "{", "null", "[]", "7", '{"left": null}']) assert.deepEqual(recalled(text), {});
});
