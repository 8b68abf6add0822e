// Keeps the place in the graph at the end of the page's address, so that a reload, back and a sent link lead to it.

import { BEGINNING, cameraAt, isIn, placeOf, placeText } from "./place.js";
import { fxopt } from "./shared.js";

const RESTING = 250; // ms in which the camera stands still before its place is written
const WAITING = 5000; // ms in which the picture that the address asks for may come
const SAME = 0.01; // of a pixel

export class Lookout {
  /** @param {AbortSignal} signal */
  constructor(signal) {
    this.asked = null; // the place that the address asks for, until it is shown
    fxopt.looked = (pane) => this.looked(pane);
    window.addEventListener("popstate", () => this.read(), { signal });
    // Streamlit writes an address without an end; a browser that tells nothing of it gets the end at the next move.
    /** @type {any} */ (globalThis).navigation?.addEventListener("currententrychange", () => this.rest(), { signal });
    signal.addEventListener("abort", () => this.end());
    this.read();
  }

  get pane() {
    return fxopt.views.find((pane) => pane.foldable && pane.scene && pane.view.homeDone);
  }

  read() {
    clearTimeout(this.waiting);
    this.asked = null;
    if (!location.hash.startsWith(BEGINNING)) return;
    this.asked = placeOf(location.hash);
    if (!this.asked) return this.tell("the address asks for a place in the graph that cannot be read");
    this.waiting = setTimeout(() => this.missed(), WAITING);
    this.follow();
  }

  missed() {
    this.asked = null;
    this.tell("the address asks for a place in another picture than this");
    this.rest();
  }

  tell(text) {
    this.pane?.chrome.say(text);
  }

  looked(pane) {
    if (pane !== this.pane) return;
    this.follow();
    this.rest();
  }

  follow() {
    const { pane, asked } = this;
    if (!pane || !asked || pane.motion || !isIn(asked, pane.scene.id)) return;
    clearTimeout(this.waiting);
    this.asked = null;
    const [width, height] = pane.stageSize();
    if (asked.stand) Object.assign(pane.camera, cameraAt(asked.stand, width, height));
    else pane.view.home();
    if (!pane.view.showsAny()) {
      this.tell("the address asks for a place beside the graph");
      pane.view.home();
    }
    pane.draw();
  }

  rest() {
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.write(), RESTING);
  }

  write() {
    const { pane } = this;
    if (this.asked || !pane?.ready) return;
    const { hash, pathname, search } = location;
    const stand = isHome(pane) ? null : standIn(pane);
    const text = search || stand ? placeText(pane.scene.id, stand) : ""; // the bare address of the page stays
    if (hash === text || (hash && !hash.startsWith(BEGINNING))) return;
    history.replaceState(history.state, "", `${pathname}${search}${text}`);
  }

  end() {
    clearTimeout(this.resting);
    clearTimeout(this.waiting);
    delete fxopt.looked;
  }
}

function standIn(pane) {
  const { x, y, zoom } = pane.camera;
  const [width, height] = pane.stageSize();
  return { x, y, zoom, width, height };
}

// Whether the pane shows its picture as that opens: in another window it then does so too.
function isHome(pane) {
  const home = new pane.camera.constructor();
  home.home(pane.scene, ...pane.stageSize(), pane.theme.scale);
  const { x, y, zoom } = pane.camera;
  return Math.abs(home.x - x) < SAME && Math.abs(home.y - y) < SAME && Math.abs(home.zoom / zoom - 1) < 1e-6;
}
