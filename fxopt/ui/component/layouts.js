// The entry of the component that carries a layout, to the code that knows what to do with it, or before it.

import { fxopt } from "./shared.js";

export default function ({ data }) {
  if (fxopt.take) fxopt.take(data);
  else (fxopt.packed ??= []).push(data);
}
