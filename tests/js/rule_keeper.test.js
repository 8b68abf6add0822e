import assert from "node:assert/strict";
import { test } from "node:test";

/** @type {Map<string, string>} */
const stored = new Map();
const sessionStorage = {
  getItem: (/** @type {string} */ key) => stored.get(key) ?? null,
  setItem: (/** @type {string} */ key, /** @type {string} */ text) => void stored.set(key, text),
};
Object.assign(globalThis, { sessionStorage });
const { default: keep } = await import("../../fxopt/ui/component/rule_keeper.js");

/** What the page is told as it draws the keeper for a visit. @param {string} visit @param {{kept?: string, heard?: boolean}} data */
function drawn(visit, { kept = "", heard = false } = {}) {
  /** @type {string[]} */
  const told = [];
  keep({ data: { visit, kept, heard }, setTriggerValue: (_, text) => void told.push(text) });
  return told;
}
const kept = () => [...stored.values()];

test("a letter that is typed before the page has heard of the kept rule does not overwrite it", () => {
  assert.deepEqual(drawn("first"), []);
  drawn("first", { kept: "of the first visit" });
  assert.deepEqual(kept(), ["of the first visit"]);
  assert.deepEqual(drawn("second", { kept: "a letter" }), ["of the first visit"]);
  assert.deepEqual(drawn("second", { kept: "two letters" }), [], "it is told once");
  assert.deepEqual(kept(), ["of the first visit"]);
  drawn("second", { kept: "three letters", heard: true });
  assert.deepEqual(kept(), ["three letters"]);
});

test("the page of a server that began anew is told of what it kept, though it was told the same before", () => {
  stored.clear();
  drawn("first", { kept: "one rule" });
  assert.deepEqual(drawn("second"), ["one rule"]);
  assert.deepEqual(drawn("second", { heard: true }), []);
  assert.deepEqual(drawn("third"), ["one rule"]);
});
