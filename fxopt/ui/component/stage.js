// The elements on which a graph is drawn: a canvas, the selected box as an option for screen readers, and a tip.

import { element } from "./chrome.js";

export function stageElements() {
  const stage = element("div", "fx-stage");
  stage.tabIndex = 0;
  stage.setAttribute("role", "listbox");
  const canvas = element("canvas", "fx-canvas");
  canvas.setAttribute("aria-hidden", "true");
  const option = element("div", "fx-spoken", "No node selected");
  option.id = "fx-option";
  option.setAttribute("role", "option");
  option.setAttribute("aria-selected", "false");
  const tip = element("div", "fx-tip");
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  stage.append(canvas, option, tip);
  return { stage, canvas, option, tip };
}
