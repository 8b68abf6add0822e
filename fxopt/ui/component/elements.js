// Elements of the page as plain values, and how to bring what stands there to them: what stays the same is left alone,
// and with it its focus, its place as it scrolls, and what the visitor is just pressing.

/** @typedef {{ tag: string, key: string, props: Record<string, any>, children: (Drawn | string)[] }} Drawn */

const PROPERTIES = new Set(["checked", "disabled"]);
/** @type {WeakMap<Node, { key: string, props: Record<string, any> }>} */
const drawn = new WeakMap();

/**
 * @param {string} tag
 * @param {Record<string, any>} [props] attributes, listeners (`onclick`), and a `key` by which one of its kind is known
 * @param {...any} children elements, texts, lists of them; nothing where there is none
 * @returns {Drawn}
 */
export function h(tag, { key = "", ...props } = {}, ...children) {
  return { tag, key, props, children: children.flat(Infinity).filter((one) => one !== undefined && one !== null && one !== "" && one !== false) };
}

/**
 * Bring the content of an element to the wanted one.
 * @param {HTMLElement} parent
 * @param {(Drawn | string)[]} wanted
 */
export function bring(parent, wanted) {
  const held = document.activeElement;
  fill(parent, wanted);
  // An element that goes to another place loses the focus on its way.
  if (held instanceof HTMLElement && held !== document.activeElement && parent.contains(held)) held.focus({ preventScroll: true });
}

/**
 * @param {Element} parent
 * @param {(Drawn | string)[]} wanted
 */
function fill(parent, wanted) {
  /** @type {Map<string, ChildNode>} */
  const known = new Map();
  for (const node of parent.childNodes) {
    const key = drawn.get(node)?.key;
    if (key) known.set(key, node);
  }
  let at = parent.firstChild;
  for (const one of wanted) {
    const key = typeof one === "string" ? "" : one.key;
    const there = key ? known.get(key) : at && !drawn.get(at)?.key ? at : undefined;
    const node = there && isOfKind(there, one) ? there : made(one);
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
    if (typeof one === "string") {
      if (node.textContent !== one) node.textContent = one;
    } else if (node instanceof HTMLElement) {
      dress(node, one);
      fill(node, one.children);
    }
  }
  while (at) {
    const gone = at;
    at = at.nextSibling;
    gone.remove();
  }
}

/** @param {ChildNode} node @param {Drawn | string} wanted */
function isOfKind(node, wanted) {
  return typeof wanted === "string" ? node.nodeType === Node.TEXT_NODE : node.nodeName.toLowerCase() === wanted.tag;
}

/** @param {Drawn | string} wanted @returns {ChildNode} */
function made(wanted) {
  return typeof wanted === "string" ? document.createTextNode(wanted) : document.createElement(wanted.tag);
}

/** @param {HTMLElement} element @param {Drawn} wanted */
function dress(element, { key, props }) {
  const before = drawn.get(element)?.props ?? {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(props)])) {
    const value = props[name];
    if (PROPERTIES.has(name)) /** @type {any} */ (element)[name] = Boolean(value); // the visitor changes it too
    else if (name.startsWith("on")) /** @type {any} */ (element)[name] = value ?? null;
    else if (value === before[name]) continue;
    else if (value === undefined || value === null || value === false) element.removeAttribute(name);
    else element.setAttribute(name, value === true ? "" : value);
  }
  drawn.set(element, { key, props });
}
