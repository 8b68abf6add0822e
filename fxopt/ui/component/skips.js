// Links at the beginning of the page that lead to its parts: the first stops of the Tab key, seen once they have the focus.

import { fxopt } from "./shared.js";

/** @type {[string, import("./frame_sizes.js").Part | null, () => HTMLElement | null | undefined][]} */
const PLACES = [
  ["the graph", null, () => fxopt.views[0]?.stage],
  ["the passes", "left", () => first(".st-key-passes input, .st-key-passes button")],
  ["the inspector", "right", () => first(".st-key-inspected")],
  ["the evidence", null, () => first('.st-key-drawer [role="tab"][aria-selected="true"]')],
  ["the lesson", null, () => first('[data-testid="stSidebar"] h3')], // only while it is open (lesson.css)
];

/**
 * Put the links on the page.
 * @param {(part: import("./frame_sizes.js").Part) => void} open opens a panel that may be closed
 * @returns {HTMLElement} for the caller to remove
 */
export function skipLinks(open) {
  const links = document.createElement("nav");
  links.className = "skip-links";
  links.setAttribute("aria-label", "Skip to");
  for (const [name, part, place] of PLACES) {
    const link = document.createElement("button");
    Object.assign(link, { type: "button", textContent: `Go to ${name}`, className: `to-${name.split(" ")[1]}` });
    link.addEventListener("click", () => {
      if (part) open(part);
      const target = place();
      if (target?.matches(":is(div, h3):not([tabindex])")) target.tabIndex = -1;
      target?.focus();
    });
    links.append(link);
  }
  document.body.prepend(links);
  return links;
}

/** @param {string} selector @returns {HTMLElement | null} */
function first(selector) {
  return document.querySelector(selector);
}
