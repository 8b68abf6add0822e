// What stands around the stage: buttons, search, legend, caption. Data becomes text, never HTML.

import { SIGNS, textOn } from "./boxes.js";

export function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

function corners() {
  const [picture, path] = ["svg", "path"].map((tag) => document.createElementNS("http://www.w3.org/2000/svg", tag));
  picture.setAttribute("viewBox", "0 0 14 14");
  picture.setAttribute("class", "fx-icon");
  path.setAttribute("d", "M1 5V1h4M9 1h4v4M13 9v4H9M5 13H1V9");
  picture.append(path);
  return picture;
}

export const MARK_WORDS = {
  matched: "would apply",
  applied: "applied",
  miss: "near miss",
  created: "created",
  changed: "changed",
  removed: "removed",
  failed: "failed here",
};

export class Chrome {
  constructor(pane) {
    this.pane = pane;
    this.bar = element("div", "fx-bar");
    this.bar.setAttribute("role", "toolbar");
    this.bar.setAttribute("aria-label", "Graph controls");
    this.button("−", "Zoom out (-)", () => pane.view.zoom(1 / 1.35));
    this.button("+", "Zoom in (+)", () => pane.view.zoom(1.35));
    this.button("Fit", "Fit the whole graph (Space)", () => pane.view.fit());
    this.button("Home", "Home: back to the first view (0)", () => pane.view.home());
    this.find = element("input", "fx-find");
    this.find.type = "search";
    this.find.placeholder = "Find  ( / )";
    this.find.title = "A name, an operation, a module path or a shape; a regular expression if you like";
    this.find.setAttribute("aria-label", "Find nodes by name, operation, module or shape");
    this.found = element("span", "fx-found");
    this.found.setAttribute("role", "status");
    this.bar.append(element("span", "fx-gap"), this.found, this.find);
    this.before = this.button("‹", "Previous one found (Shift+Enter)", () => pane.search.step(-1));
    this.after = this.button("›", "Next one found (Enter)", () => pane.search.step(1));
    this.before.disabled = this.after.disabled = true;
    this.find.addEventListener("input", () => pane.search.start(this.find.value));
    this.find.addEventListener("keydown", (event) => this.findKey(event));
    this.button("", "Full screen", () => this.toggleFull()).append(corners());
    this.foot = element("div", "fx-foot");
    this.legend = element("div", "fx-legend");
    this.caption = element("div", "fx-caption");
    this.foot.append(this.legend, this.caption);
  }

  button(text, title, act) {
    const made = element("button", "fx-button", text);
    made.type = "button";
    made.title = title;
    made.setAttribute("aria-label", title);
    made.addEventListener("click", act);
    this.bar.append(made);
    return made;
  }

  toggleFull() {
    const { root } = this.pane;
    const done = root.matches(":fullscreen") ? document.exitFullscreen() : root.requestFullscreen?.();
    done?.catch((error) => this.say(`no full screen: ${error.message}`));
  }

  say(text) {
    this.found.textContent = text;
  }

  findKey(event) {
    // Streamlit binds plain letters on the document; what is typed here is for the search alone.
    event.stopPropagation();
    const { pane } = this;
    if (event.key === "Enter") {
      event.preventDefault();
      pane.search.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      this.find.value = "";
      pane.search.start("");
      pane.stage.focus();
    }
  }

  describe() {
    const { scene } = this.pane;
    this.caption.replaceChildren(element("span", "", scene.caption));
    for (const note of [scene.note, this.pane.note]) if (note) this.caption.append(element("span", "fx-note", note));
    this.caption.title = [...this.caption.children].map((one) => one.textContent).join("; ");
    this.describeMarks();
  }

  // Which passes and signs are in this picture, and which colors mean what.
  describeMarks() {
    const { scene, marks, styles, unseen } = this.pane;
    const seen = new Map();
    const { legend, became } = this.pane;
    for (const of of marks.values()) {
      for (const [kind, pass, count] of of) {
        const key = kind in SIGNS ? kind : `${kind} ${pass}`;
        const entry = seen.get(key) ?? seen.set(key, { kind, pass, count: 0 }).get(key);
        entry.count += count;
      }
    }
    const place = ({ kind, pass }) => (kind in SIGNS ? Infinity : pass);
    const entries = [...seen.values()].sort((a, b) => (place(a) < place(b) ? -1 : place(a) > place(b) ? 1 : 0));
    // Counts that Python gives are those of the whole state, alike in each picture of it; signs are then only named.
    const parts = legend.map(([kind, pass, words]) => this.markEntry(kind, styles[pass], words));
    for (const { kind, pass, count } of entries)
      if (!legend.length) parts.push(this.markEntry(kind, styles[pass], `${count} ${MARK_WORDS[kind]}`));
      else if (kind in SIGNS) parts.push(this.markEntry(kind, styles[pass], MARK_WORDS[kind]));
    if (became.some(([old]) => scene.boxStates?.[old] === "removed")) {
      const entry = element("span", "fx-entry");
      entry.append(element("i", "fx-swatch-became"), "became");
      parts.push(entry);
    }
    if (unseen) parts.push(element("span", "fx-entry", `${unseen} marked, not in this picture`));
    if (!parts.length) {
      const kinds = new Set(scene.kinds);
      for (const [kind, words] of scene.kindWords) {
        if (!kinds.has(kind)) continue;
        const entry = element("span", "fx-entry");
        const swatch = element("i", `fx-swatch fx-swatch-${kind === "group" ? "group" : "node"}`);
        swatch.style.background = `var(--fx-fill-${kind})`;
        swatch.style.borderColor = `var(--fx-edge-${kind})`;
        entry.append(swatch, words);
        parts.push(entry);
      }
    }
    const { told } = this.pane.path;
    if (told) {
      const entry = element("span", "fx-entry");
      entry.append(element("i", "fx-swatch-path"), told);
      parts.push(entry);
    }
    const operands = this.describeOperands();
    if (operands) parts.push(element("span", "fx-entry", operands));
    this.legend.replaceChildren(...parts);
    this.legend.title = parts.map((one) => one.textContent).join("; ");
  }

  // The meaning of the numbers beside the heads of edges, of those that this picture has.
  describeOperands() {
    const texts = [...this.pane.scene.reads.values()].filter(Boolean);
    const words = [];
    if (texts.some((text) => /(^|[^×\d])\d/.test(text))) words.push("1, 2 at an arrow: first, second operand");
    if (texts.some((text) => text.includes("×"))) words.push("×2 at an arrow: read twice");
    return words.join(" · ");
  }

  markEntry(kind, style, words) {
    const entry = element("span", "fx-entry");
    const color = this.pane.markColor([kind, 0], style);
    const sign = element("i", `fx-sign fx-sign-${kind}`, kind in SIGNS ? SIGNS[kind] : (style?.[1] ?? "?"));
    sign.style.setProperty("--fx-sign", color);
    if (kind === "applied" || kind in SIGNS) sign.style.color = textOn(color);
    entry.append(sign, `${kind in SIGNS ? "" : `${style?.[0] ?? ""} · `}${words}`);
    return entry;
  }
}

// Finds boxes by name, label, module path or shape, and by name the nodes in folded modules. A hit is the name of a box
// or of such a node.
export class Search {
  constructor(pane) {
    this.pane = pane;
    this.hits = [];
    this.at = -1;
  }

  // In another picture the same is found, and the search stands where it stood.
  again() {
    const name = this.at < 0 ? "" : this.hits[this.at];
    this.start(this.text ?? "");
    this.at = this.hits.indexOf(name);
    if (this.at >= 0) this.tell();
  }

  start(text) {
    this.text = text.trim();
    this.at = -1;
    this.hits = this.text ? this.matches(this.text) : [];
    const count = this.hits.length;
    const { chrome } = this.pane;
    chrome.before.disabled = chrome.after.disabled = !count;
    chrome.say(this.text ? (count ? `${count} found` : "nothing found") : "");
  }

  matches(text) {
    const { scene } = this.pane;
    const fits = tester(text);
    const hits = [];
    for (let i = 0; i < scene.count; i++) {
      const own = [scene.names[i], scene.titles[i], scene.subtitles[i], scene.modules[i], scene.groups.get(i) ?? ""];
      const inside = scene.members.get(i)?.split(" ") ?? [];
      if (own.some(fits)) hits.push(scene.names[i]);
      else hits.push(...inside.filter(fits));
    }
    return hits;
  }

  step(direction) {
    if (!this.text) return;
    if (!this.hits.length) return this.pane.chrome.say("nothing found");
    const count = this.hits.length;
    this.at = this.at < 0 ? (direction > 0 ? 0 : count - 1) : (this.at + direction + count) % count;
    this.tell();
    const { pane } = this;
    const name = this.hits[this.at];
    const i = pane.scene.find(name);
    if (pane.foldable && !pane.scene.index.has(name)) return pane.goInto(name);
    pane.select(i, "now");
    pane.view.reveal(i);
  }

  tell() {
    const name = this.hits[this.at];
    const isInside = !this.pane.scene.index.has(name);
    this.pane.chrome.say(`${this.at + 1} of ${this.hits.length}${isInside ? ` · inside: ${name}` : ""}`);
  }
}

// A text as a regular expression where it is one, else as it stands; case does not matter.
function tester(text) {
  let pattern = null;
  try {
    pattern = new RegExp(text, "i");
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  const lower = text.toLowerCase();
  return (value) => value.toLowerCase().includes(lower) || (pattern?.test(value) ?? false);
}
