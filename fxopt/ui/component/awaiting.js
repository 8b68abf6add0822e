// What a small component shows with code that another one brings: Streamlit sends a component's own code with each
// change of its data.

import { fxopt } from "./shared.js";

/**
 * @param {"show" | "showPasses"} name of the function that shows it, once its code is there
 * @param {any} api as Streamlit gives it to a component
 */
export function showWith(name, api) {
  if (fxopt[name]) return fxopt[name](api);
  let [gone, end] = [false, null];
  fxopt.waiting.push(() => {
    if (!gone) end = fxopt[name](api);
  });
  return () => {
    gone = true;
    end?.();
  };
}
