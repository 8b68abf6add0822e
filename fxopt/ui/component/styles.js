// The text of graph.css, which fxopt/ui/modules.py puts here: the styles come with the code.

export const STYLES = "";
