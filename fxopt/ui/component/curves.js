// Curves of edges, as x and y of their points in turn: the two ends of a line, or one end and three points for each piece
// of a Bézier curve.

const PIECES = 12; // straight ones that stand for a piece of a curve, where a distance is asked for

/** @param {number[]} points */
export function pathOf(points) {
  const path = new Path2D();
  path.moveTo(points[0], points[1]);
  if (points.length < 8) path.lineTo(points[points.length - 2], points[points.length - 1]);
  for (let at = 2; at + 5 < points.length; at += 6)
    path.bezierCurveTo(points[at], points[at + 1], points[at + 2], points[at + 3], points[at + 4], points[at + 5]);
  return path;
}

/**
 * Return the two ends of a curve: where it leaves its source, and where it comes to its target.
 * @param {number[]} points
 * @returns {[[number, number], [number, number]]}
 */
export function endsOf(points) {
  return [[points[0], points[1]], [points[points.length - 2], points[points.length - 1]]];
}

/**
 * Return the points beside the two ends of a curve, so far along it: outside of the boxes that it joins.
 * @param {number[]} points
 * @param {number} far
 * @returns {[number, number][]}
 */
export function besideEnds(points, far) {
  const last = points.length - 2;
  return [[0, 2], [last, last - 2]].map(([end, next]) => {
    const [dx, dy] = [points[next] - points[end], points[next + 1] - points[end + 1]];
    const share = Math.min(0.5, far / (Math.hypot(dx, dy) || 1));
    return [points[end] + share * dx, points[end + 1] + share * dy];
  });
}

/**
 * Return a point in the middle of a curve.
 * @param {number[]} points
 * @returns {[number, number]}
 */
export function middleOf(points) {
  if (points.length < 8) return [(points[0] + points[points.length - 2]) / 2, (points[1] + points[points.length - 1]) / 2];
  const at = 2 + 6 * Math.floor((points.length - 2) / 12);
  return pointOf(points, at, 0.5);
}

/**
 * @param {number[]} points
 * @param {number} at of the first control point of a piece
 * @param {number} t from 0 to 1 along the piece
 * @returns {[number, number]}
 */
function pointOf(points, at, t) {
  const [a, b, c, d] = [(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3];
  return [
    a * points[at - 2] + b * points[at] + c * points[at + 2] + d * points[at + 4],
    a * points[at - 1] + b * points[at + 1] + c * points[at + 3] + d * points[at + 5],
  ];
}

/**
 * @param {number[]} points
 * @param {number} x
 * @param {number} y
 */
export function distanceTo(points, x, y) {
  if (points.length < 8) return distanceToLine(points[0], points[1], points[points.length - 2], points[points.length - 1], x, y);
  let least = Infinity;
  for (let at = 2; at + 5 < points.length; at += 6) {
    let [px, py] = [points[at - 2], points[at - 1]];
    for (let piece = 1; piece <= PIECES; piece++) {
      const [qx, qy] = pointOf(points, at, piece / PIECES);
      least = Math.min(least, distanceToLine(px, py, qx, qy, x, y));
      [px, py] = [qx, qy];
    }
  }
  return least;
}

/**
 * @param {number} ax
 * @param {number} ay
 * @param {number} bx
 * @param {number} by
 * @param {number} x
 * @param {number} y
 */
function distanceToLine(ax, ay, bx, by, x, y) {
  const [dx, dy] = [bx - ax, by - ay];
  const along = Math.max(0, Math.min(1, ((x - ax) * dx + (y - ay) * dy) / (dx * dx + dy * dy || 1)));
  return Math.hypot(x - ax - along * dx, y - ay - along * dy);
}

/** @param {number[]} points @returns {[number, number, number, number]} */
export function boundsOf(points) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (let at = 0; at < points.length; at += 2) {
    left = Math.min(left, points[at]);
    right = Math.max(right, points[at]);
    top = Math.min(top, points[at + 1]);
    bottom = Math.max(bottom, points[at + 1]);
  }
  return [left, top, right, bottom];
}
