// The selected box in words, for screen readers.

/**
 * @typedef {import("./scene.js").Scene} Scene
 * @typedef {object} Facts of a box besides those of the scene
 * @property {string[]} marks in words
 * @property {string} [cost] in words
 * @property {boolean} isOnPath
 */

/**
 * @param {Pick<Scene, "titles" | "subtitles" | "modules" | "inputs" | "users">} scene
 * @param {number} i
 * @param {Facts} facts
 */
export function spokenBox(scene, i, { marks, cost, isOnPath }) {
  return [
    scene.titles[i],
    scene.subtitles[i],
    scene.modules[i] && `in ${scene.modules[i]}`,
    cost,
    isOnPath && "on the critical path",
    `${scene.inputs[i].length} inputs`,
    `${scene.users[i].length} users`,
    ...marks,
  ]
    .filter(Boolean)
    .join(", ");
}
