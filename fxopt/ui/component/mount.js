// The entry of the component that shows a graph. Its data is small and changes often, so the code comes with a component
// of its own (store.js): Streamlit sends a component's code with each change of its data.

import { fxopt } from "./shared.js";

export default function (api) {
  if (fxopt.show) return fxopt.show(api);
  let [gone, end] = [false, null];
  fxopt.waiting.push(() => {
    if (!gone) end = fxopt.show(api);
  });
  return () => {
    gone = true;
    end?.();
  };
}
