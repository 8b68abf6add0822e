// Acts of the visitor on their way to Python. Each is sent with its number until Python has acknowledged it, so that of
// many quick ones none is lost and none is done twice. A message names the session that the visitor sees, so that none is
// done to another model which opens meanwhile; see events.py.

const MOST_WAITING = 64; // as MOST_ACTS in events.py: Python does no more of one message

/** @typedef {[number, ...string[]]} Act its number, and what Python is told */
/** @typedef {{ session: string, acts: Act[] }} Message */

export class Acts {
  /** @param {string[]} everywhere the acts that are obeyed in any session */
  constructor(everywhere = []) {
    this.everywhere = everywhere;
    this.session = "";
    this.count = 0; // the number of the last act
    /** @type {Act[]} */
    this.waiting = [];
  }

  get isFull() {
    return this.waiting.length >= MOST_WAITING;
  }

  /**
   * Python has acknowledged the acts up to a number, and shows a session; acts in another one are sent no longer.
   * @param {{ session?: string, heard?: number }} data
   * @returns {boolean} whether it is the same session as before
   */
  take({ session = "", heard = 0 }) {
    const isSame = session === this.session;
    this.session = session;
    this.count = Math.max(this.count, heard);
    this.waiting = this.waiting.filter(([number, kind]) => number > heard && (isSame || this.everywhere.includes(kind)));
    return isSame;
  }

  /**
   * Number an act, and return the message that is to be sent. An act beyond the most is dropped.
   * @param {...string} told
   * @returns {Message}
   */
  add(...told) {
    if (!this.isFull) this.waiting.push([++this.count, ...told]);
    return { session: this.session, acts: [...this.waiting] };
  }
}
