// What the components of one page share, as `globalThis.__fxopt`: they come at different times, in any order.

/**
 * @typedef {object} Shared
 * @property {any[]} views the panes on the page
 * @property {(() => void)[]} waiting what is to be shown once the code is there
 * @property {any[]} [packed] layouts that came before the code
 * @property {Map<string, any>} [layouts] pictures by the ids of their layouts
 * @property {WeakMap<Element, any>} [panes] by the element in which each stands
 * @property {Map<any, () => void>} [awaited] what is to be done once a layout comes, by pane
 * @property {Map<string, any>} [seen] what was told of pictures, by their digests
 * @property {number} [actedAt] when the visitor last did something, in ms
 * @property {(pane: any) => void} [looked] told of each painting of a pane
 * @property {any} [left] where the pane that ended last looked
 * @property {any} [keys] the listener to keys
 * @property {(part: import("./frame_sizes.js").Part) => void} [openPanel] opens a panel of the frame that is closed
 * @property {() => void} [panesChanged] told of each pane that comes or goes
 * @property {() => void} [makeRoom] closes the drawer, where the window is too low for it and a graph
 * @property {(act: string) => void} [foresee]
 * @property {(api: any) => (() => void)} [show]
 * @property {(api: any) => (() => void)} [showPasses]
 * @property {any} [passes] the list of passes
 * @property {(bytes: any) => void} [take]
 * @property {(marks: any, styles?: any, word?: string) => void} [preview]
 */

/** @type {Shared} */
export const fxopt = (/** @type {any} */ (globalThis).__fxopt ??= { views: [], waiting: [] });
