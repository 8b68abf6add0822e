// The entry of the component that carries the code of the page: that of the list of passes, and that of graphs.

import "./pass_list.js";
import "./store.js";
