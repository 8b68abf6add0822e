// Pictures that were shown before are painted as soon as the visitor does what leads back to them, and not when Python
// says so a moment later: an optimistic update. Python says with each picture which acts lead where; see foreseen.py.
//
// An act leads there from what Python said last. So nothing is painted ahead while an act may be unanswered. Keys and
// acts in the graphs are known to be answered; of others, a new word for the graph or some time must do: on a line
// that takes long, several acts in a row may be painted ahead of the wrong one, until Python's word comes.

import { fxopt } from "./shared.js";

const PICTURES = 48; // more than Python remembers
const QUIET = 250; // ms that nothing must have been done before: what is heard later may answer something earlier
const ANSWERED = 3000; // ms after which an act has been answered, or has changed nothing in the graph
const UNHEARD = 4000; // ms after which what Python said last holds, if it says nothing else

// What Python said last to a pane, and whether the pane is ahead of it.
export class Word {
  constructor(pane) {
    this.pane = pane;
    this.data = null;
    this.heardAt = 0;
    this.isAhead = false;
  }

  // Whether `data` is to be shown. While the pane is ahead, Streamlit gives it the old word again, which is not.
  hear(data) {
    const isNew = data.turn === undefined || data.turn !== this.data?.turn;
    if (!isNew) return !this.isAhead;
    this.end();
    this.data = data;
    this.heardAt = performance.now();
    if (data.picture) {
      fxopt.seen.delete(data.picture);
      fxopt.seen.set(data.picture, data);
      if (fxopt.seen.size > PICTURES) fxopt.seen.delete(fxopt.seen.keys().next().value);
    }
    return true;
  }

  // Paint what `act` leads back to, unless something is still to be heard: the act may then lead somewhere else.
  foresee(act) {
    const seen = fxopt.seen.get(this.data?.foreseen?.[act]);
    const picture = fxopt.layouts.get(seen?.layout);
    if (!picture || this.isAhead) return;
    this.isAhead = true;
    this.wait();
    this.show(seen, picture);
  }

  wait() {
    this.timer = setTimeout(() => this.takeBack(), UNHEARD);
  }

  takeBack() {
    if (isRunning()) return this.wait();
    this.isAhead = false;
    this.show(this.data, fxopt.layouts.get(this.data.layout));
  }

  show(data, picture) {
    const { session, heard, selected, goneTo } = this.data;
    this.pane.show({ ...data, session, heard, selected, goneTo }, picture.scene(data.side ?? "after"));
  }

  end() {
    this.isAhead = false;
    clearTimeout(this.timer);
  }
}

function isRunning() {
  return document.querySelector("[data-test-script-state=running]") !== null;
}

// The visitor does `act`: the class of a widget, or the name of a key; empty for what leads nowhere that is known.
export function foresee(act) {
  const before = fxopt.actedAt;
  const now = (fxopt.actedAt = performance.now());
  const isUnheard = [fxopt.keys, fxopt.passes, ...fxopt.views].some((part) => part?.acts.waiting.length);
  if (!act || now - before < QUIET || isUnheard || isRunning()) return;
  for (const { word } of [...fxopt.views]) {
    if (word.heardAt > before || now - before > ANSWERED) word.foresee(act);
  }
}

// A click on a button, or on a switch or its label, by pointer or by key.
function actOf(target) {
  const control = target.closest("button, label");
  if (!control || control.parentElement.closest("label") || control.querySelector("input")?.disabled) return "";
  const key = [...(control.closest("[class*=st-key-]")?.classList ?? [])].find((name) => name.startsWith("st-key-"));
  return (key ?? "").slice("st-key-".length);
}

// What is done in the graphs is known there. Enter on a button or a switch is followed by a click.
export function listenToActs() {
  const heard = (event) => {
    const target = event.composedPath()[0];
    if (!(target instanceof Element) || target.closest(".fx")) return;
    if (event.type === "click") foresee(actOf(target));
    else if (event.key === "Enter" && !target.closest("button, label")) foresee("");
  };
  for (const type of ["click", "keydown"]) document.addEventListener(type, heard, { capture: true });
}
