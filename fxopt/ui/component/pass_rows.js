// The rows of the list of passes, from their description. The class of a part is that of a widget of Streamlit with the
// same key: lessons, previews and the pictures that are painted ahead find rows and switches by it.

import { h } from "./elements.js";

/** @typedef {(kind: string, about?: string) => void} Does tells Python of an act */
/** @typedef {(of: { about: string, on: boolean }) => boolean} IsOn */

/** @param {any} pass @param {IsOn} isOn @param {Does} does */
export function row(pass, isOn, does) {
  const byHand = pass["by hand"];
  return h("div", { key: pass.letter, class: `st-key-${pass.key} pass-row` },
    h("div", { class: "pass-head" },
      h("span", { class: byHand ? "letter" : "letter grip", style: `--pass: ${pass.color}` }, pass.letter),
      toggle(pass.switch, isOn, does, "switch"),
      byHand ? titleByHand(pass, does) : [line(pass), opener(pass, does)]),
    byHand && h("p", { class: "pass-note" }, byHand.told, exactness(byHand.exactness)),
    pass.error && failure(pass, does),
    pass.question && question(pass.question, does),
    byHand && button(`remove ${pass.class}`, { class: "pass-link", onclick: () => does("remove", pass.letter) }, "Remove"),
    pass.focus && inFocus(pass, isOn, does));
}

/** @param {any[]} idle @param {Does} does */
export function idlePasses(idle, does) {
  return h("div", { key: "idle", class: "st-key-without-a-site" },
    h("span", { class: "pass-note" }, "No site in this model:"),
    idle.map((pass) => h("span", { key: pass.key, class: `st-key-${pass.key}` },
      h("button", { type: "button", class: "pass-link", title: pass.told, onclick: () => does("look", pass.letter) }, pass.name))));
}

/** @param {any[]} passes @param {Does} does */
export function approximatePasses(passes, does) {
  return h("div", { key: "approximate", class: "st-key-approximate-passes" },
    h("span", { class: "pass-note" }, "Approximate, on request:"),
    passes.map((pass) => h("span", { key: pass.key, class: `st-key-${pass.key}` },
      h("button", { type: "button", class: "pass-link", title: pass.told, onclick: () => does("add", pass.class) }, pass.name))));
}

/** @param {string} key @param {Record<string, any>} props @param {...any} children */
function button(key, props, ...children) {
  return h("span", { class: `st-key-${asClass(key)}` }, h("button", { type: "button", ...props }, children));
}

// As as_class in switches.py has it.
/** @param {string} key */
function asClass(key) {
  return key.replace(/[^a-zA-Z0-9_-]/gu, "-");
}

/** @param {any} of @param {IsOn} isOn @param {Does} does @param {string} [role] */
function toggle(of, isOn, does, role) {
  const told = (event) => does(event.target.checked ? "on" : "off", of.about);
  return h("span", { class: `st-key-${of.key}` },
    h("label", { class: role ? "pass-switch" : "pass-check" },
      h("input", { type: "checkbox", role, checked: isOn(of), disabled: of.disabled, onchange: told }),
      h("span", { class: "spoken" }, of.label)));
}

function line(pass) {
  return h("div", { class: "pass-line", title: pass.about },
    h("span", { class: "pass-name" }, pass.name),
    h("span", { class: "spoken" }, pass.words),
    h("span", { class: "pass-figures", "aria-hidden": "true" },
      pass.signs.map(([kind, sign]) => h(kind === "some" || kind === "none" ? "b" : "i", { class: kind }, sign))));
}

function opener(pass, does) {
  const isOpen = Boolean(pass.focus);
  return button(`icon sites of ${pass.class}`, {
    class: "pass-icon pass-opener",
    "aria-expanded": String(isOpen),
    "aria-label": `Sites of ${pass.name}`,
    title: isOpen ? "Hide its sites" : "Show its sites, here and in the graph",
    onclick: () => (isOpen ? does("close") : does("look", pass.letter)),
  });
}

function titleByHand(pass, does) {
  return button(`show ${pass.class}`, { class: "pass-link by-hand", title: "Show its node", onclick: () => does("show", pass.letter) }, pass.name);
}

function failure(pass, does) {
  return h("div", { class: "pass-alert failed", role: "alert" }, h("p", {}, pass.error),
    pass["failed at"] && button(`failed at of ${pass.class}`, { class: "pass-link", onclick: () => does("show", pass.letter) },
      "Show ", h("code", {}, pass["failed at"])));
}

function question(asked, does) {
  const answer = (said) => () => does("answer", `${asked.name} ${said}`);
  return h("div", { class: "pass-alert asked", role: "alert" }, h("p", {}, asked.told),
    h("div", { class: "pass-answers" },
      button("answer yes", { class: "pass-button sure", onclick: answer("yes") }, asked.yes),
      button("answer no", { class: "pass-button", onclick: answer("no") }, asked.no)));
}

function inFocus(pass, isOn, does) {
  const { focus } = pass;
  const behind = focus["before edits"];
  const mover = (name, sign, by, isPossible) => button(`icon ${name.toLowerCase()} ${pass.class}`, {
    class: `pass-icon ${sign}`, "aria-label": `${name}: ${pass.name}`, title: name, disabled: !isPossible,
    onclick: () => does(by, pass.letter),
  });
  return h("div", { class: "pass-focus" },
    h("div", { class: "pass-order" }, h("span", { class: "pass-note" }, focus.order),
      mover("Run earlier", "up", "earlier", focus.earlier), mover("Run later", "down", "later", focus.later)),
    behind && h("div", { class: "pass-order" }, h("span", { class: "pass-note" }, behind.told),
      behind.sites && button(`run behind the edits ${pass.class}`, { class: "pass-link", title: behind.sites, onclick: () => does("behind", pass.letter) },
        "Run it after the edits")),
    focus.notes.map((told) => h("p", { class: "pass-note" }, told)),
    focus.sites.map((one) => (one.copies ? family(one, isOn, does) : site(one, isOn, does))),
    focus.missed && h("p", { class: "pass-missed", title: focus.missing }, h("strong", {}, focus.missed), ", left alone"),
    focus.misses.map((one) => miss(one, does)),
    focus.more > 0 && button(`more of ${pass.class}`, { class: "pass-link", onclick: () => does("more") }, `${focus.more} more`));
}

function site(one, isOn, does) {
  return h("div", { key: one.site, class: `st-key-${one.key} pass-site` },
    h("div", { class: "pass-head" }, toggle(one.switch, isOn, does), named(one, `${one.told} · ${one.exactness[0]}`, does)),
    one.current && h("p", { class: "pass-note" }, one.told, exactness(one.exactness)));
}

function family(one, isOn, does) {
  const { copies } = one;
  const turn = (event) => {
    event.preventDefault(); // Python opens it, with the copies in it
    does("copies", copies.place);
  };
  return h("div", { key: one.key, class: `st-key-${one.key} pass-family` },
    h("div", { class: "pass-head" }, toggle(one.switch, isOn, does), named(one, `${one.told} · ${one.exactness[0]}`, does, ` ${one.count}`)),
    h("details", { class: `st-key-${copies.key}`, open: copies.open },
      h("summary", { onclick: turn }, copies.label),
      copies.open && copies.sites.map((each) => site(each, isOn, does))),
    !copies.open && copies.sites.map((each) => site(each, isOn, does)));
}

function miss(one, does) {
  const told = [one.reason, ...one.pairs.map(([word, value]) => `${word} ${value}`), one.remedy].filter(Boolean).join("\n");
  const more = one.pairs.map(([word, value], at) => [at ? " · " : "", `${word} `, h("strong", {}, value)]);
  return h("div", { key: `miss ${one.site}`, class: `st-key-${one.key} pass-miss` },
    h("div", { class: "pass-head" }, named(one, told, does), !one.current && h("span", { class: "pass-note", title: told }, one.reason)),
    one.current && [h("p", { class: "pass-note" }, one.reason), more.length > 0 && h("p", { class: "pass-note" }, more),
      one.remedy && h("p", { class: "pass-note" }, one.remedy)]);
}

// A name that leads to its node in the graph.
function named(one, told, does, after = "") {
  const title = one.name === one.site || one.copies ? told : `${one.site}\n${told}`;
  return h("button", { type: "button", class: "pass-node", title, onclick: () => does("go", one.site) }, h("code", {}, one.name), after);
}

function exactness(words) {
  return words && [" · ", h("span", { class: `exactness ${words[1]}` }, words[0])];
}
