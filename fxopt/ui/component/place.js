// A place in a picture as the end of an address: `#at=PICTURE` is the first look at it, `#at=PICTURE,X,Y,ZOOM,WIDTH,HEIGHT`
// another one. No server is told of it.

export const BEGINNING = "#at=";
const MOST = 120; // characters
const PICTURE = 12; // characters of the id of a layout, which tell it from another one
const FORM = /^#at=(\w{1,12})(?:,(-?\d{1,7}(?:\.\d+)?),(-?\d{1,7}(?:\.\d+)?),(\d(?:\.\d+)?),(\d{1,5}),(\d{1,5}))?$/;

/**
 * @typedef {{x: number, y: number, zoom: number}} Looking a camera
 * @typedef {Looking & {width: number, height: number}} Stand a camera with the size of its stage, in pixels
 * @typedef {{picture: string, stand: Stand | null}} Place in a picture; without a stand, where it opens
 */

/** @param {string} id of the layout @param {Stand | null} stand */
export function placeText(id, stand) {
  const text = `${BEGINNING}${id.slice(0, PICTURE)}`;
  if (!stand) return text;
  const { x, y, zoom, width, height } = stand;
  return `${text},${x.toFixed(2)},${y.toFixed(2)},${zoom.toFixed(8)},${Math.round(width)},${Math.round(height)}`;
}

/** Return the place that a text holds; null if it holds none. @param {string} text @returns {Place | null} */
export function placeOf(text) {
  const found = text.length <= MOST ? FORM.exec(text) : null;
  if (!found) return null;
  if (found[2] === undefined) return { picture: found[1], stand: null };
  const [x, y, zoom, width, height] = found.slice(2).map(Number);
  return zoom > 0 && width && height ? { picture: found[1], stand: { x, y, zoom, width, height } } : null;
}

/** Return whether a place is one in the picture with this id. @param {Place} place @param {string} id */
export function isIn(place, id) {
  return place.picture === id.slice(0, PICTURE);
}

/**
 * Return the camera of a stand, on a stage of another size with the same point in the middle.
 * @param {Stand} stand
 * @param {number} width of the stage, in pixels
 * @param {number} height
 * @returns {Looking}
 */
export function cameraAt(stand, width, height) {
  return {
    x: stand.x + (width - stand.width) / 2,
    y: stand.y + (height - stand.height) / 2,
    zoom: stand.zoom,
  };
}
