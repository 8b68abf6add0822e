// Acts of the visitor on their way to Python. Each is sent with its number until Python has acknowledged it, so that of
// many quick ones none is lost and none is done twice.

const MOST_WAITING = 64; // as MOST_ACTS in events.py: Python does no more of one message

/** @typedef {[number, ...string[]]} Act its number, and what Python is told */

export class Acts {
  /** @param {number} heard the number of the last act that Python has acknowledged */
  constructor(heard = 0) {
    this.count = heard;
    /** @type {Act[]} */
    this.waiting = [];
  }

  get isFull() {
    return this.waiting.length >= MOST_WAITING;
  }

  /** Python has acknowledged the acts up to `number`. @param {number} number */
  heard(number) {
    this.count = Math.max(this.count, number);
    this.waiting = this.waiting.filter(([of]) => of > number);
  }

  /** Send no longer what Python has not acknowledged. */
  drop() {
    this.waiting = [];
  }

  /**
   * Number an act, and return all that are to be sent. An act beyond the most is dropped.
   * @param {...string} told
   * @returns {Act[]}
   */
  add(...told) {
    if (!this.isFull) this.waiting.push([++this.count, ...told]);
    return [...this.waiting];
  }
}
