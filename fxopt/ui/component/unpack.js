// Layouts come gzipped, with numbers told by differences (fxopt/view/packing.py). This is the way back.

/** @param {BlobPart} bytes gzipped JSON @returns {Promise<import("./scene.js").Payload>} */
export async function unpack(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return restored(await new Response(stream).json());
}

/**
 * Turn differences back into numbers, in place.
 * @template {Pick<import("./scene.js").Payload, "boxes" | "ends" | "curves">} P
 * @param {P} payload
 * @returns {P}
 */
export function restored(payload) {
  const { boxes, ends, curves } = payload;
  for (let at = 4; at < boxes.length; at += 4) {
    boxes[at] += boxes[at - 4];
    boxes[at + 1] += boxes[at - 3];
  }
  for (let at = 0; at < ends.length; at += 2) {
    if (at) ends[at] += ends[at - 2];
    ends[at + 1] += ends[at];
  }
  curves.forEach((points, edge) => {
    const box = 4 * ends[2 * edge];
    points[0] += boxes[box] + Math.floor(boxes[box + 2] / 2);
    points[1] += boxes[box + 1] + boxes[box + 3];
    for (let at = 2; at < points.length; at++) points[at] += points[at - 2];
  });
  return payload;
}
