import assert from "node:assert/strict";
import { test } from "node:test";

import { cornerBeside, outlineOf } from "../../fxopt/ui/component/beside.js";

const card = { width: 300, height: 150 };
const room = { width: 1280, height: 720 };

/** @param {[number, number]} corner @param {import("../../fxopt/ui/component/beside.js").Area} control */
function covers([x, y], control) {
  const isBeside = x >= control.x + control.width || x + card.width <= control.x;
  return !isBeside && !(y >= control.y + control.height || y + card.height <= control.y);
}

test("a card stands beside its control, and covers none of it where a side has room", () => {
  const controls = {
    passes: { x: 0, y: 50, width: 340, height: 630 },
    views: { x: 360, y: 60, width: 300, height: 40 },
    inspector: { x: 980, y: 50, width: 300, height: 630 },
    tabs: { x: 16, y: 680, width: 1200, height: 36 },
  };
  for (const [name, control] of Object.entries(controls)) {
    const [x, y] = cornerBeside(control, card, room);
    assert.ok(!covers([x, y], control), name);
    assert.ok(x >= 0 && y >= 0 && x + card.width <= room.width && y + card.height <= room.height, name);
  }
});

test("over a control as large as the window, a card stands in its lower part and within the window", () => {
  const [x, y] = cornerBeside({ x: 0, y: 0, width: 1280, height: 720 }, card, room);
  assert.ok(x > 0 && x + card.width < 1280 && y > 360 && y + card.height < 720);
});

test("an outline is around its control, and has all its sides in the window", () => {
  const inspector = { x: 980, y: 50, width: 300, height: 670 };
  assert.deepEqual(outlineOf(inspector, room), { left: 976, top: 46, right: 1280, bottom: 720 });
});
