// The text of pass_list.css, which fxopt/ui/modules.py puts here: the styles come with the code.

export const LIST_STYLES = "";
