// The entry of the component that shows the list of passes. Its code comes with a component of its own (page.js).

import { showWith } from "./awaiting.js";

export default function (api) {
  return showWith("showPasses", api);
}
