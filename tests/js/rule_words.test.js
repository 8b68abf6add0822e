import assert from "node:assert/strict";
import { test } from "node:test";

import { completions } from "../../fxopt/ui/component/rule_words.js";

const values = (before) => completions(before, { fxopt: ["require", "rewrite"], nn: ["Linear"] }).map((one) => one.value);

test("names come behind their module, the decorator behind an @, and nothing elsewhere", () => {
  assert.deepEqual(values("    fxopt."), ["require", "rewrite"]);
  assert.deepEqual(values("def mine(x, linear: nn."), ["Linear"]);
  assert.deepEqual(values("@"), ["fxopt.rewrite"]);
  assert.deepEqual(values("@fxopt."), ["require", "rewrite"]);
  assert.deepEqual(values("    return "), []);
  assert.deepEqual(values("    y = x @"), []);
  assert.deepEqual(values("    self."), []);
});
