import assert from "node:assert/strict";
import { test } from "node:test";

import { cameraAt, isIn, placeOf, placeText } from "../../fxopt/ui/component/place.js";

const ID = "0123456789abcdef0123";
const STAND = { x: -1234.56, y: 7.25, zoom: 0.61803399, width: 800, height: 433 };

test("a place is the same after it was written and read, in a short text", () => {
  for (const stand of [STAND, null]) {
    const text = placeText(ID, stand);
    const place = placeOf(text);
    assert.ok(place);
    assert.deepEqual(place.stand, stand);
    assert.ok(text.length < 60);
    assert.ok(isIn(place, ID));
    assert.ok(!isIn(place, "0123456789acccef0123"));
  }
});

test("the largest place that a graph has can be written and read", () => {
  const far = { x: -999_999.5, y: -999_999.5, zoom: 4, width: 10_000, height: 10_000 };
  assert.deepEqual(placeOf(placeText(ID, far))?.stand, far);
});

test("in a window of the same size the camera is the same, and in another one the middle is", () => {
  assert.deepEqual(cameraAt(STAND, 800, 433), { x: STAND.x, y: STAND.y, zoom: STAND.zoom });
  const { x, y, zoom } = cameraAt(STAND, 1000, 633);
  const middle = (/** @type {number} */ at, /** @type {number} */ size) => (size / 2 - at) / zoom;
  assert.ok(Math.abs(middle(x, 1000) - middle(STAND.x, 800)) < 1e-9);
  assert.ok(Math.abs(middle(y, 633) - middle(STAND.y, 433)) < 1e-9);
});

test("any other text is no place", () => {
  const good = placeText(ID, STAND);
  const wrong = ["", "#at=", "#other", good.replace("433", "4333333"), good.replace("0.61803399", "0.00000000"), `${good},1`];
  wrong.push(good.replace("800", "0"), good.replace("-1234.56", "NaN"), good.replace("-1234.56", "1e9"));
  wrong.push(`${good.slice(0, -3)}${"3".repeat(200)}`, good.replace("0123456789ab", "<b>"), "#at=%E2%82%AC,1,1,1,1,1");
  for (const text of wrong) assert.equal(placeOf(text), null, text);
});
