// The places of what speaks of a control: an outline around it; a card beside it where there is room, else over it.

const GAP = 14; // px between the control and the card, and between the card and the edge of the window
const OUTSIDE = 4; // px between a control and its outline

/** @typedef {{ x: number, y: number, width: number, height: number }} Area in px of the window */
/** @typedef {{ width: number, height: number }} Size */

/**
 * Return the edges of an outline: around a control, and within the window on each side.
 * @param {Area} control
 * @param {Size} room of the window
 */
export function outlineOf({ x, y, width, height }, room) {
  const [left, top] = [Math.max(x - OUTSIDE, 0), Math.max(y - OUTSIDE, 0)];
  const [right, bottom] = [Math.min(x + width + OUTSIDE, room.width), Math.min(y + height + OUTSIDE, room.height)];
  return { left, top, right, bottom };
}

/**
 * Return the corner of a card: right of the control, left of it, below or above it; over its lower part where the
 * control leaves no room at any side.
 * @param {Area} control
 * @param {Size} card
 * @param {Size} room of the window
 * @returns {[number, number]}
 */
export function cornerBeside({ x, y, width, height }, card, room) {
  const [left, top] = [within(x + width / 2 - card.width / 2, card.width, room.width), within(y, card.height, room.height)];
  if (x + width + GAP + card.width + GAP <= room.width) return [x + width + GAP, top];
  if (x - GAP - card.width >= GAP) return [x - GAP - card.width, top];
  if (y + height + GAP + card.height + GAP <= room.height) return [left, y + height + GAP];
  if (y - GAP - card.height >= GAP) return [left, y - GAP - card.height];
  return [left, within(y + height - GAP - card.height, card.height, room.height)];
}

/**
 * @param {number} at
 * @param {number} size
 * @param {number} room
 */
function within(at, size, room) {
  return Math.max(GAP, Math.min(at, room - GAP - size));
}
