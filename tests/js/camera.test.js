import assert from "node:assert/strict";
import { test } from "node:test";

import { Camera } from "../../fxopt/ui/component/camera.js";
import { Scene } from "../../fxopt/ui/component/scene.js";
import { twoGraphs, withoutBrowser } from "./layouts.js";

withoutBrowser();

test("a point goes to the screen and back", () => {
  const camera = Object.assign(new Camera(), { x: 30, y: -7, zoom: 0.5 });
  assert.deepEqual(camera.toScreen([10, 20]), [35, 3]);
  assert.deepEqual(camera.toWorld(camera.toScreen([10, 20])), [10, 20]);
});

test("zooming keeps the place of the point under the pointer, within bounds", () => {
  const camera = Object.assign(new Camera(), { x: 30, y: -7, zoom: 0.5 });
  const under = camera.toWorld([120, 80]);
  for (const factor of [1.35, 1 / 1.35, 1e9, 1e-12]) {
    camera.zoomBy(factor, [120, 80]);
    const [x, y] = camera.toScreen(under);
    assert.ok(Math.abs(x - 120) < 1e-6 && Math.abs(y - 80) < 1e-6);
    assert.ok(camera.zoom >= 0.0005 && camera.zoom <= 4);
  }
});

test("fitting shows the whole scene in the middle", () => {
  const [camera, scene] = [new Camera(), new Scene(twoGraphs())];
  camera.fit(scene, 400, 200);
  const [[left, top], [right, bottom]] = [camera.toScreen([0, 0]), camera.toScreen([scene.width, scene.height])];
  const margin = 16 - 1e-6;
  assert.ok(left >= margin && top >= margin && right <= 400 - margin && bottom <= 200 - margin);
  assert.ok(Math.abs(left + right - 400) < 1e-6 && Math.abs(top + bottom - 200) < 1e-6);
});

test("the first look at a tall scene is at its beginning, at a size that can be read", () => {
  const camera = new Camera();
  const scene = Object.assign(new Scene(twoGraphs()), { height: 9000 });
  camera.home(scene, 400, 200);
  assert.ok(camera.zoom >= 0.6);
  assert.equal(camera.toScreen([0, 0])[1], 16);
});

test("a box is in view where all of it is, as far from the edges as asked", () => {
  const [camera, scene] = [new Camera(), new Scene(twoGraphs())];
  assert.ok(camera.shows(scene, 0, 400, 200));
  assert.ok(!camera.shows(scene, 0, 400, 200, 10));
  assert.ok(!camera.shows(scene, 0, 90, 200));
  assert.ok(camera.showsAny(scene, 90, 20));
  camera.y = -1000;
  assert.ok(!camera.showsAny(scene, 400, 200));
});

test("revealing a box moves nothing where it can be seen and read, and else brings it to the middle", () => {
  const scene = new Scene(twoGraphs());
  const camera = Object.assign(new Camera(), { x: 60, y: 60, zoom: 1 });
  camera.reveal(scene, 0, 400, 300);
  assert.deepEqual([camera.x, camera.y, camera.zoom], [60, 60, 1]);
  camera.y = -500;
  camera.reveal(scene, 0, 400, 300);
  assert.deepEqual(camera.toScreen(scene.center(0)), [200, 150]);
  camera.zoom = 0.1;
  camera.reveal(scene, 3, 400, 300);
  assert.equal(camera.zoom, 0.9);
  assert.ok(Math.abs(camera.toScreen(scene.center(3))[0] - 200) < 1e-6);
});

test("a wheel moves a picture that is longer than the stage to its ends, and one with room not at all", () => {
  const scene = Object.assign(new Scene(twoGraphs()), { width: 200, height: 900 });
  const camera = Object.assign(new Camera(), { x: 50, y: 16, zoom: 1 });
  assert.ok(!camera.panBy(scene, -30, 40, 400, 300)); // it fits in width, and its beginning is in view
  assert.ok(camera.panBy(scene, 0, -200, 400, 300));
  assert.deepEqual([camera.x, camera.y], [50, -184]);
  camera.panBy(scene, 0, -9000, 400, 300);
  assert.equal(camera.toScreen([0, 900])[1], 300 - 16);
});

test("a picture that was dragged away comes back by the wheel, and goes no farther", () => {
  const scene = new Scene(twoGraphs());
  const camera = Object.assign(new Camera(), { x: -150, y: 16, zoom: 1 });
  assert.ok(!camera.panBy(scene, -10, 0, 400, 400));
  assert.ok(camera.panBy(scene, 10, 0, 400, 400));
  assert.equal(camera.x, -140);
});

test("what was opened comes into view, seen from farther away where it is larger, but never too small to read", () => {
  const scene = Object.assign(new Scene(twoGraphs()), { width: 300, height: 2000 });
  const camera = Object.assign(new Camera(), { x: 50, y: 0, zoom: 1 });
  camera.contain(scene, [0, 900, 100, 400], [100, 350], 400, 300);
  assert.equal(camera.zoom, (300 - 32) / 400);
  assert.ok(Math.abs(camera.toScreen([0, 900])[1] - 16) < 1e-6 && Math.abs(camera.toScreen([0, 1300])[1] - 284) < 1e-6);
  camera.contain(scene, [0, 0, 100, 2000], [100, 100], 400, 300);
  assert.equal(camera.zoom, 0.6);
  const still = { ...camera };
  camera.contain(scene, [0, 0, 100, 20], [100, 100], 400, 300);
  camera.contain(scene, null, [100, 100], 400, 300);
  assert.equal(camera.zoom, still.zoom);
});

test("a picture that is to be seen whole leaves no wide gap beside it or above it", () => {
  const scene = Object.assign(new Scene(twoGraphs()), { width: 1000, height: 2000 });
  const camera = Object.assign(new Camera(), { x: 180, y: 0, zoom: 1 });
  camera.contain(scene, null, [0, 0], 400, 300);
  assert.deepEqual([camera.x, camera.y], [16, 0]);
  camera.y = 130;
  camera.closeGaps(scene, 400, 300);
  assert.deepEqual([camera.x, camera.y], [16, 16]);
  camera.y = -1900;
  camera.closeGaps(scene, 400, 300);
  assert.equal(camera.y, 300 - 16 - 2000);
});

test("a picture that had room across is seen whole in a narrower stage, and as before when the room is back", () => {
  const scene = new Scene(twoGraphs());
  const camera = Object.assign(new Camera(), { x: 50, y: 16, zoom: 1 });
  camera.x -= 50;
  camera.keepAcross(scene, 300, 200);
  assert.ok(camera.zoom < 1 && camera.zoom >= 0.6);
  assert.ok(camera.toScreen([0, 0])[0] >= 15 && camera.toScreen([scene.width, 0])[0] <= 185);
  camera.x += 50;
  camera.keepAcross(scene, 200, 300);
  assert.ok(Math.abs(camera.zoom - 1) < 1e-9);
});

test("a picture that was seen in part keeps its size in another stage", () => {
  const scene = new Scene(twoGraphs());
  const camera = Object.assign(new Camera(), { zoom: 2 });
  camera.keepAcross(scene, 300, 200);
  assert.equal(camera.zoom, 2);
  camera.keepAcross(scene, 200, 800);
  assert.equal(camera.zoom, 2);
});

test("after many modules were opened, the boxes at the heights in view are in the middle, without a gap beside the scene", () => {
  const scene = Object.assign(new Scene(twoGraphs()), { width: 2000 });
  scene.boxes.set([1000, 0, 100, 30], 0);
  scene.boxes.set([1010, 60, 100, 30], 4);
  scene.boxes.set([0, 900, 100, 30], 8);
  scene.boxes.set([1020, 60, 80, 30], 12);
  const camera = Object.assign(new Camera(), { x: 130, y: 16, zoom: 1 });
  camera.gather(scene, 400, 200);
  assert.equal(camera.zoom, 0.6);
  for (const box of [0, 1, 3]) assert.ok(camera.shows(scene, box, 400, 200));
  camera.x = 130;
  scene.boxes.set([0, 0, 100, 30], 0);
  scene.boxes.set([0, 60, 100, 30], 4);
  scene.boxes.set([0, 60, 80, 30], 12);
  camera.gather(scene, 400, 200);
  assert.equal(camera.toScreen([0, 0])[0], 16);
});
