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
