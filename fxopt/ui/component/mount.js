// The entry of the component that shows a graph. Its code comes with a component of its own (page.js).

import { showWith } from "./awaiting.js";

export default function (api) {
  return showWith("show", api);
}
