import assert from "node:assert/strict";
import { test } from "node:test";

import { Camera } from "../../fxopt/ui/component/camera.js";
import { Scene } from "../../fxopt/ui/component/scene.js";
import { twoGraphs, withoutBrowser } from "./layouts.js";

withoutBrowser();

/** @param {Camera} camera @param {Scene} scene @param {number} i */
const seenAt = (camera, scene, i) => camera.toScreen(scene.center(i));

test("going to a box shows it at a size that can be read, and in the middle where it was far away", () => {
  const scene = Object.assign(new Scene(twoGraphs()), { height: 9000 });
  const camera = Object.assign(new Camera(), { x: 0, y: -5000, zoom: 0.1 });
  camera.goTo(scene, 3, 400, 200);
  assert.equal(camera.zoom, 0.9);
  assert.ok(Math.abs(seenAt(camera, scene, 3)[1] - 100) < 1e-6);
});

test("going to a box in view moves nothing up or down, and leaves no half of the stage empty", () => {
  const scene = new Scene(twoGraphs());
  const camera = Object.assign(new Camera(), { x: 250, y: 30, zoom: 1 });
  const [, top] = seenAt(camera, scene, 1);
  camera.goTo(scene, 1, 400, 300);
  assert.equal(seenAt(camera, scene, 1)[1], top);
  assert.equal(camera.x, (400 - scene.width) / 2);
});

test("a scene that is wider than the stage is moved no further than its own edge", () => {
  const scene = Object.assign(new Scene(twoGraphs()), { width: 900 });
  const camera = Object.assign(new Camera(), { x: 300, y: 0, zoom: 1 });
  camera.goTo(scene, 0, 400, 200);
  assert.equal(camera.x, 16);
  assert.equal(camera.zoom, 0.6);
  scene.boxes.set([800, 60, 80, 30], 12);
  camera.goTo(scene, 3, 400, 200);
  assert.equal(camera.x, 400 - 16 - 900 * 0.6);
});
