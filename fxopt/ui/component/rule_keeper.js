// The visitor's rule in the session storage of the browser, where a reload finds it. Python runs nothing of it unasked.

const KEPT_RULE = "fxopt rule";
const keeping = { visit: "", isUnheard: false }; // the visit, and whether Python is still to hear of an earlier one's rule

export default function ({ data, setTriggerValue }) {
  if (data.visit !== keeping.visit) {
    const found = sessionStorage.getItem(KEPT_RULE);
    keeping.visit = data.visit;
    keeping.isUnheard = found !== null;
    if (keeping.isUnheard) setTriggerValue("found", found);
  }
  if (data.heard) keeping.isUnheard = false;
  if (data.kept && !keeping.isUnheard) sessionStorage.setItem(KEPT_RULE, data.kept); // never over one that is unheard
}
