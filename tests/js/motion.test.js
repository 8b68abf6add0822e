import assert from "node:assert/strict";
import { test } from "node:test";

import { Motion, placesBefore } from "../../fxopt/ui/component/motion.js";
import { Scene } from "../../fxopt/ui/component/scene.js";
import { twoGraphs, withoutBrowser } from "./layouts.js";

withoutBrowser();

const moved = () => {
  const payload = twoGraphs();
  payload.boxes = payload.boxes.map((value, at) => (at % 4 === 0 ? value + 50 : value));
  return new Scene(payload);
};

test("each box starts where it was on the screen, and ends in its new place", () => {
  const [before, after] = [new Scene(twoGraphs()), moved()];
  const camera = { x: 10, y: 20, zoom: 0.5 };
  const from = placesBefore(before, after, camera, camera);
  assert.ok(from);
  const motion = new Motion(from, 1000);
  assert.deepEqual(motion.rect(1, after.rect(1)), before.rect(1));
  motion.moveOn(1100);
  const [x] = motion.rect(1, after.rect(1));
  assert.ok(x > 0 && x < 50 && !motion.isDone);
  motion.moveOn(2000);
  assert.deepEqual(motion.rect(1, after.rect(1)), after.rect(1));
  assert.ok(motion.isDone);
});

test("a box that keeps its place on the screen does not move", () => {
  const [before, after] = [new Scene(twoGraphs()), moved()];
  // The first box had its left edge at 10, and has it there again.
  const from = placesBefore(before, after, { x: 10, y: 20, zoom: 1 }, { x: -40, y: 20, zoom: 1 });
  assert.deepEqual([...(from ?? [])], [...after.boxes]);
});

test("a box starts at the size that it had, where the new picture is seen from farther away", () => {
  const scene = new Scene(twoGraphs());
  const from = placesBefore(scene, scene, { x: 10, y: 20, zoom: 1 }, { x: 0, y: 0, zoom: 0.5 });
  assert.deepEqual([...(from ?? [])].slice(4, 8), [20, 160, 200, 60]);
});

test("a box that is new starts at its place, and a very large scene does not glide", () => {
  const payload = twoGraphs();
  payload.names = ["a", "b", "@m", "new"];
  const scene = new Scene(payload);
  const look = { x: 0, y: 0, zoom: 1 };
  const from = placesBefore(new Scene(twoGraphs()), scene, look, look);
  assert.deepEqual([...(from ?? [])].slice(12), [120, 60, 80, 30]);
  const large = Object.assign(new Scene(payload), { count: 3001 });
  assert.equal(placesBefore(scene, large, look, look), null);
});
