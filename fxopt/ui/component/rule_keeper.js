// The visitor's rule in the session storage of the browser, where a reload finds it. Python runs nothing of it unasked.

const KEPT_RULE = "fxopt rule";
const asked = new WeakSet(); // the places of pages that were told of the rule that is kept

export default function ({ data, parentElement, setStateValue }) {
  if (data.kept) {
    sessionStorage.setItem(KEPT_RULE, data.kept);
    asked.delete(parentElement); // a new visit of the same page asks again
    return;
  }
  const found = sessionStorage.getItem(KEPT_RULE);
  if (found === null || asked.has(parentElement)) return;
  asked.add(parentElement);
  setStateValue("found", found);
}
