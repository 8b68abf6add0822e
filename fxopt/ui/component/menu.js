// The menu of a node, a folded module or an edge, by the right button, the menu key or Shift+F10. The edits are Python's
// to check.

import { element } from "./chrome.js";

const OF_NODE = [
  ["delete", "Delete it", "Delete"],
  ["insert", "Insert a module behind it", ""],
  ["target", "Call something else", ""],
  ["module", "Call another module", ""],
  ["constants", "Change its constants", ""],
  ["rewire", "Rewire its inputs", ""],
  ["swap", "Swap two arguments", ""],
];

const OF_EDGE = [
  ["insert", "Insert a module on it"],
  ["connect", "Connect it to another node"],
];

const FOLLOWING = 30000; // ms in which the form of edits comes, on a machine with much to do

export class Menu {
  constructor(pane) {
    this.pane = pane;
    this.root = element("div", "fx-menu");
    this.root.popover = "manual"; // on top of all; by itself it would close as the right button comes up
    this.root.setAttribute("role", "menu");
    this.root.addEventListener("keydown", (event) => this.key(event));
    this.ending = new AbortController();
    const away = (event) => event.composedPath().includes(this.root) || this.close();
    window.addEventListener("pointerdown", away, { capture: true, signal: this.ending.signal });
    window.addEventListener("blur", () => this.close(), { signal: this.ending.signal });
    pane.stage.addEventListener("contextmenu", (event) => {
      if (!pane.scene || !pane.foldable) return;
      event.preventDefault();
      const place = pane.stage.getBoundingClientRect();
      const at = [event.clientX - place.left, event.clientY - place.top];
      if (event.pointerId === -1) return pane.edges.focused < 0 ? this.openAtSelected() : pane.edges.openMenuOfFocused();
      const box = pane.scene.boxAt(...pane.camera.toWorld(at));
      if (box < 0) return this.openAtEdge(pane.edges.at(at), event.clientX, event.clientY);
      if (box !== pane.selected) pane.select(box, "now");
      this.open(box, event.clientX, event.clientY);
    });
  }

  openAtSelected() {
    const { selected } = this.pane;
    if (selected < 0 || !this.pane.foldable || this.root.matches(":popover-open")) return;
    const { x, y, width, height } = this.pane.pageRect(this.pane.scene.rect(selected));
    this.open(selected, x + width / 2, y + height / 2);
  }

  open(box, x, y) {
    const { pane } = this;
    const path = pane.scene.groups.get(box);
    const name = pane.scene.plainName(box);
    const entries = path
      ? [["Open the module", "Enter", () => pane.toggle(path)]]
      : OF_NODE.map(([what, words, keys]) => [words, keys, () => this.ask(`edit ${what}`, name)]);
    this.show(path ?? name, entries, x, y);
  }

  // What a node at either end needs, its own menu has; an edge of a folded module stands for several.
  openAtEdge(edge, x, y) {
    if (edge < 0) return;
    const { pane } = this;
    const { scene } = pane;
    const names = pane.edges.names(edge)?.join(" ");
    const folded = [scene.ends[2 * edge], scene.ends[2 * edge + 1]].map((box) => scene.groups.get(box)).filter(Boolean);
    const entries = names
      ? OF_EDGE.map(([what, words]) => [words, "", () => this.ask(`edge ${what}`, names)])
      : folded.map((path) => [`Open the module ${path}`, "", () => pane.toggle(path)]);
    this.show(pane.edges.told(edge), entries, x, y);
  }

  // Tell Python, and follow to the form that it opens, unless the visitor does something else meanwhile.
  ask(what, names) {
    this.pane.tell(what, names);
    if (what === "edit delete") return; // done at once: the graph is where it is seen
    const end = performance.now() + FOLLOWING;
    const away = new AbortController();
    for (const act of ["pointerdown", "keydown"])
      window.addEventListener(act, () => away.abort(), { capture: true, signal: away.signal });
    const follow = () => {
      const held = document.activeElement;
      const isElsewhere = held && held !== document.body && !held.contains(this.pane.stage.getRootNode().host ?? this.pane.stage);
      if (isElsewhere || away.signal.aborted || performance.now() > end) return away.abort();
      const field = document.querySelector('.st-key-inspected [role="combobox"][aria-label*="What to change"]');
      if (field instanceof HTMLElement) field.focus(); // it takes the focus once the form around it has opened
      requestAnimationFrame(follow);
    };
    requestAnimationFrame(follow);
  }

  show(of, entries, x, y) {
    const { pane, root } = this;
    root.setAttribute("aria-label", `Acts on ${of}`);
    root.replaceChildren(
      ...entries.map(([words, keys, act]) => {
        const entry = element("button", "fx-entry-of-menu", words);
        entry.type = "button";
        entry.setAttribute("role", "menuitem");
        if (keys) entry.append(element("kbd", "", keys));
        entry.addEventListener("click", () => {
          this.close();
          pane.stage.focus({ preventScroll: true });
          act();
        });
        return entry;
      }),
    );
    root.showPopover();
    const { width, height } = root.getBoundingClientRect();
    root.style.left = `${Math.max(4, Math.min(x, innerWidth - width - 4))}px`;
    root.style.top = `${Math.max(4, Math.min(y, innerHeight - height - 4))}px`;
    root.firstElementChild.focus();
  }

  close() {
    if (this.root.matches(":popover-open")) this.root.hidePopover();
  }

  key(event) {
    event.stopPropagation();
    const entries = [...this.root.children];
    const at = entries.indexOf(event.target);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (to !== undefined) entries.at(to % entries.length).focus();
    else if (event.key === "Tab" || event.key === "Escape") {
      this.close();
      this.pane.stage.focus({ preventScroll: true });
    } else return;
    event.preventDefault();
  }
}
