// The sizes of the frame: two panels at the sides and a drawer below, each a size of its own, or closed.

/** @typedef {"left" | "right" | "drawer"} Part */
/** @typedef {Part | "beside"} Kept the inspector beside two graphs in a narrow window has a size of its own */
/** @typedef {{ size: number, open: boolean }} Size a size in px; a closed part keeps it for when it opens again */
/** @typedef {Partial<Record<Kept, Size>>} Sizes those that the visitor chose; the others follow the window */

export const STEP = 40; // px that an arrow key moves an edge
const LEAST = { left: 220, right: 220, beside: 220, drawer: 120 };
const LEFT_FOR_GRAPH = { left: 380, right: 380, drawer: 280 }; // px that stay for the graph

/**
 * A size within its bounds; dragged to less than half of the least one, the part closes.
 * @param {Part} part
 * @param {number} asked px
 * @param {Size} before
 * @param {number} room px of the window, less what the other parts take
 * @returns {Size}
 */
export function sized(part, asked, before, room) {
  if (asked < LEAST[part] / 2) return { ...before, open: false };
  return { size: Math.round(Math.min(Math.max(asked, LEAST[part]), largest(part, room))), open: true };
}

/**
 * @param {Part} part
 * @param {number} room
 */
export function largest(part, room) {
  return Math.max(LEAST[part], room - LEFT_FOR_GRAPH[part]);
}

/**
 * The next height of the drawer, of closed, low, half and tall.
 * @param {Size} before
 * @param {number} direction 1 for taller, -1 for lower
 * @param {number} room
 * @returns {Size}
 */
export function stepped(before, direction, room) {
  const heights = [0.3, 0.5, 0.8].map((share) => Math.max(LEAST.drawer, Math.min(Math.round(share * room), largest("drawer", room))));
  const now = before.open ? before.size : 0;
  const next = direction > 0 ? heights.find((one) => one > now + 8) : heights.findLast((one) => one < now - 8);
  if (next === undefined) return direction > 0 ? { size: /** @type {number} */ (heights.at(-1)), open: true } : { ...before, open: false };
  return { size: next, open: true };
}

/**
 * What the browser kept of an earlier visit; anything else than sizes is left out.
 * @param {string | null} text
 * @returns {Sizes}
 */
export function recalled(text) {
  /** @type {Sizes} */
  const sizes = {};
  let kept;
  try {
    kept = JSON.parse(text ?? "{}");
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return sizes;
  }
  for (const part of /** @type {Kept[]} */ (["left", "right", "beside", "drawer"])) {
    const { size, open } = kept?.[part] ?? {};
    if (Number.isFinite(size) && size >= LEAST[part] && typeof open === "boolean") sizes[part] = { size, open };
  }
  return sizes;
}
