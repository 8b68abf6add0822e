// The first control of a step, to be scrolled to once a step: as soon as the step speaks of one.

/** @template T */
export class FirstPlace {
  constructor() {
    this.step = "";
    this.isAwaited = false;
    /** @type {T | undefined} */
    this.unseen = undefined;
  }

  /** A step that is yet to begin has no places; its first one comes later. @param {string} step @param {T[]} places */
  take(step, places) {
    if (step !== this.step) [this.step, this.isAwaited, this.unseen] = [step, true, undefined];
    if (this.isAwaited && places.length) [this.isAwaited, this.unseen] = [false, places[0]];
  }

  seen() {
    this.unseen = undefined;
  }
}
