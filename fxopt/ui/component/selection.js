// The selection in one graph: a name, and the box or the frame that the present picture has for it.

/**
 * @typedef {Pick<import("./scene.js").Scene, "find" | "frames" | "inputs" | "users">} Shown the part of a scene that the selection asks for
 */

export class Selection {
  constructor() {
    this.box = -1;
    /** @type {string | null} also where this picture has no box for it */
    this.name = null;
    /** @type {Shown["frames"][number] | null} the frame of a module that was selected folded, and then opened */
    this.frame = null;
    /** @type {Set<number>} the boxes next to the selected one */
    this.near = new Set();
    /** @type {(string | null)[]} the names that Python was told of, and has not said again */
    this.sent = [];
    /** @type {string | null | undefined} the name that Python said last */
    this.told = undefined;
  }

  /** @param {Shown} scene @param {number} i the box, or -1 */
  choose(scene, i) {
    this.box = i;
    const path = i < 0 && this.name?.startsWith("@") ? this.name.slice(1) : null;
    this.frame = scene.frames.find((frame) => frame.path === path) ?? null;
    this.near = i < 0 ? new Set() : new Set([...scene.inputs[i], ...scene.users[i]]);
  }

  /**
   * Take the name that Python says; false where it is old, or the echo of a click, which must not undo a later one.
   * @param {string | null} name
   */
  take(name) {
    if (name === this.told) return false;
    this.told = name;
    const echo = this.sent.indexOf(name);
    this.sent = echo >= 0 ? this.sent.slice(echo + 1) : [];
    if (echo < 0) this.name = name;
    return echo < 0;
  }
}

/**
 * The box of a name in a scene, or -1.
 * @param {Pick<Shown, "find">} scene
 * @param {string | null} name
 */
export function boxOf(scene, name) {
  return name === null ? -1 : scene.find(name);
}
