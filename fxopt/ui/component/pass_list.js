// The list of passes. Python describes it (pass_list.py) and obeys the acts in it (pass_acts.py). A switch is moved at
// once, and confirmed or taken back as Python has heard of it.

import { Acts } from "./acts.js";
import { bring } from "./elements.js";
import { LIST_STYLES } from "./list_styles.js";
import { approximatePasses, idlePasses, row } from "./pass_rows.js";
import { fxopt } from "./shared.js";

const lists = new WeakMap();

class PassList {
  constructor(parent) {
    this.acts = new Acts();
    this.root = document.createElement("div");
    this.root.className = "pass-list";
    const style = document.createElement("style");
    style.textContent = LIST_STYLES;
    parent.append(style, this.root);
    /** @type {(message: import("./acts.js").Message) => void} */
    this.send = () => {};
    this.does = (/** @type {string} */ kind, about = "") => this.tell(kind, about);
    fxopt.passes = this; // see foreseen.js
  }

  take(data) {
    this.data = data;
    this.acts.take(data);
    this.draw();
  }

  tell(kind, about) {
    if (!this.acts.isFull) this.send(this.acts.add(kind, about));
    this.draw();
  }

  // The places of switches that Python has not heard of yet.
  get wished() {
    const moved = this.acts.waiting.filter(([, kind]) => kind === "on" || kind === "off");
    return new Map(moved.map(([, kind, about]) => [about, kind === "on"]));
  }

  draw() {
    const { wished } = this;
    const isOn = ({ about, on }) => wished.get(about) ?? on;
    const { rows, idle, approximate } = this.data;
    bring(this.root, [
      ...rows.map((one) => row(one, isOn, this.does)),
      ...(idle.length ? [idlePasses(idle, this.does)] : []),
      ...(approximate.length ? [approximatePasses(approximate, this.does)] : []),
    ]);
  }

  end() {
    this.root.remove();
    if (fxopt.passes === this) fxopt.passes = null;
  }
}

fxopt.showPasses = ({ data, parentElement, setStateValue }) => {
  let list = lists.get(parentElement);
  if (!list) {
    list = new PassList(parentElement);
    lists.set(parentElement, list);
  }
  list.send = (message) => setStateValue("acts", message);
  list.take(data);
  return () => {
    list.end();
    lists.delete(parentElement);
  };
};
