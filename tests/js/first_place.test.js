import assert from "node:assert/strict";
import { test } from "node:test";

import { FirstPlace } from "../../fxopt/ui/component/first_place.js";

/** @param {FirstPlace<string>} first */
function scrolledTo(first) {
  const found = first.unseen;
  first.seen();
  return found;
}

test("the first control of a step is scrolled to once, also where the step begins later", () => {
  /** @type {FirstPlace<string>} */
  const first = new FirstPlace();
  first.take("division 0", []);
  assert.equal(scrolledTo(first), undefined);
  first.take("division 0", ["pass", "node"]);
  assert.equal(scrolledTo(first), "pass");
  first.take("division 0", ["pass", "node"]);
  first.take("division 0", ["node"]);
  assert.equal(scrolledTo(first), undefined);
});

test("a control that is not there yet waits, and another step takes its place", () => {
  /** @type {FirstPlace<string>} */
  const first = new FirstPlace();
  first.take("division 0", ["pass"]);
  first.take("division 0", ["pass"]);
  assert.equal(first.unseen, "pass");
  first.take("division 1", []);
  assert.equal(first.unseen, undefined);
  first.take("division 0", ["pass"]);
  assert.equal(scrolledTo(first), "pass");
});
