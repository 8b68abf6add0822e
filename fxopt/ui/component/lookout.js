// Keeps the place in the graph at the end of the page's address, so that a reload, back and a sent link lead to it.

import { BEGINNING, cameraAt, isIn, placeOf, placeText } from "./place.js";
import { fxopt } from "./shared.js";

const RESTING = 250; // ms in which the camera stands still before its place is written
const WAITING = 5000; // ms, with a picture on the page, in which the one that the address asks for may come
const SAME = 0.01; // of a pixel
const MOST_TOLD = 4500; // characters of the parameters that Python is told, below MOST_TEXT in events.py

export class Lookout {
  /**
   * @param {AbortSignal} signal
   * @param {(search: string) => void} tell Python of a step back or forward, and of the parameters there
   */
  constructor(signal, tell) {
    this.asked = null; // the place that the address asks for, until it is shown
    this.told = ""; // the message that is still to be said
    this.search = location.search;
    this.tellPython = tell;
    fxopt.looked = (pane) => this.looked(pane);
    window.addEventListener("popstate", () => this.step(), { signal });
    // Streamlit writes an address without an end; a browser that tells nothing of it gets the end at the next move.
    /** @type {any} */ (globalThis).navigation?.addEventListener("currententrychange", (event) => this.written(event), { signal });
    signal.addEventListener("abort", () => this.end());
    this.read();
  }

  get pane() {
    return fxopt.views.find((pane) => pane.foldable && pane.scene && pane.view.homeDone);
  }

  written(event) {
    if (event.navigationType !== "traverse") this.search = location.search;
    this.rest();
  }

  // Streamlit tells Python too, but a run of the page at the same moment may take the place of the one it asks for.
  step() {
    const isOther = location.search !== this.search;
    this.search = location.search;
    if (isOther && this.search.length < MOST_TOLD) this.tellPython(this.search.slice(1));
    this.read();
  }

  read() {
    clearTimeout(this.waiting);
    this.asked = null;
    this.told = ""; // it was about another step
    if (!location.hash.startsWith(BEGINNING)) return;
    this.asked = placeOf(location.hash);
    if (!this.asked) return this.tell("the address asks for a place in the graph that cannot be read");
    this.wait();
    this.follow();
  }

  wait() {
    this.waiting = setTimeout(() => (this.pane ? this.missed() : this.wait()), WAITING);
  }

  missed() {
    this.asked = null;
    this.tell("the address asks for a place in another picture than this");
    this.rest();
  }

  // Say a message in the pane, as soon as there is one.
  tell(text) {
    this.told = text;
    this.say();
  }

  say() {
    if (!this.told || !this.pane) return;
    this.pane.chrome.say(this.told);
    this.told = "";
  }

  looked(pane) {
    if (pane !== this.pane) return;
    this.say();
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
    this.search = search;
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
