// Wheel, touchpad and fingers. Two fingers or a plain wheel move the picture; a pinch, or a wheel with Ctrl, zooms.

const MOST_STEP = 0.25; // by which one turn of a wheel changes the logarithm of the zoom; a pinch sends many small ones
const UNITS = [1, 16, 400]; // pixels of a step in pixels, lines and pages

export function listenToGestures(pane, place) {
  const { stage } = pane;
  stage.addEventListener("wheel", (event) => turned(pane, event, place(event)), { passive: false });
  listenToPinch(pane, place);
  listenToFingers(pane, place);
}

// A pinch on a touchpad arrives as a wheel with Ctrl and small steps.
function turned(pane, event, at) {
  if (!pane.scene) return;
  const unit = UNITS[event.deltaMode] ?? 1;
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    const step = Math.min(MOST_STEP, Math.max(-MOST_STEP, -event.deltaY * unit * 0.01));
    return pane.view.zoom(Math.exp(step), at);
  }
  const isSideways = event.shiftKey && !event.deltaX;
  const [dx, dy] = isSideways ? [event.deltaY, 0] : [event.deltaX, event.deltaY];
  const moved = pane.view.pan(-dx * unit, -dy * unit);
  // At its end the page scrolls, where that is larger than the window; to the side, a browser would leave the page.
  if (moved || Math.abs(dx) > Math.abs(dy)) event.preventDefault();
  else if (!pane.search.text) pane.chrome.say("Ctrl + wheel zooms");
}

// Safari tells a pinch on a touchpad in events of its own.
function listenToPinch(pane, place) {
  let before = 1;
  pane.stage.addEventListener("gesturestart", (event) => {
    event.preventDefault();
    before = event.scale;
  });
  pane.stage.addEventListener("gesturechange", (event) => {
    event.preventDefault();
    if (pane.scene) pane.view.zoom(event.scale / before, place(event));
    before = event.scale;
  });
}

// Two fingers on a screen hold two points of the picture. Registered before the drag of one, which they take over.
function listenToFingers(pane, place) {
  const { stage } = pane;
  const fingers = new Map();
  stage.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" && fingers.size < 2) fingers.set(event.pointerId, place(event));
  });
  stage.addEventListener("pointermove", (event) => {
    if (!pane.scene || fingers.size < 2 || !fingers.has(event.pointerId)) return;
    event.stopImmediatePropagation();
    const before = span(fingers);
    fingers.set(event.pointerId, place(event));
    const now = span(fingers);
    pane.camera.x += now.middle[0] - before.middle[0];
    pane.camera.y += now.middle[1] - before.middle[1];
    pane.view.zoom(now.length / before.length, now.middle);
  });
  const lift = (event) => fingers.delete(event.pointerId);
  for (const end of ["pointerup", "pointercancel", "pointerleave"]) stage.addEventListener(end, lift);
}

function span(fingers) {
  const [[ax, ay], [bx, by]] = fingers.values();
  return { middle: [(ax + bx) / 2, (ay + by) / 2], length: Math.max(1, Math.hypot(ax - bx, ay - by)) };
}
