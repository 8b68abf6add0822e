// A pass is dragged by its letter to another place in the order. Python hears of it as of a key; see keys.py.

const DRAGGED = 5; // px after which a press has become a drag
const EDGE = 36; // px from an end of the list at which moving scrolls it
const GRIP = ".st-key-passes .grip";
const ROW = "[class*=st-key-pass-]";

export class Drag {
  constructor(tell, signal) {
    this.tell = tell;
    this.grip = null;
    this.line = null;
    document.addEventListener("pointerdown", (event) => this.press(event), { signal });
    document.addEventListener("pointermove", (event) => this.move(event), { signal });
    document.addEventListener("pointerup", () => this.drop(), { signal });
    document.addEventListener("pointercancel", () => this.end(), { signal });
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.end(), { signal, capture: true });
    signal.addEventListener("abort", () => this.end());
  }

  press(event) {
    this.grip = event.button === 0 ? (event.target.closest?.(GRIP) ?? null) : null;
    this.start = [event.clientX, event.clientY];
    if (this.grip) event.preventDefault(); // no text is selected
  }

  move({ clientX: x, clientY: y }) {
    if (!this.grip || (!this.line && Math.hypot(x - this.start[0], y - this.start[1]) < DRAGGED)) return;
    if (!this.line) this.begin();
    const list = document.querySelector(".st-key-passes");
    const frame = list.getBoundingClientRect();
    if (y < frame.top + EDGE) list.scrollBy(0, -EDGE / 3);
    if (y > frame.bottom - EDGE) list.scrollBy(0, EDGE / 3);
    const grips = [...document.querySelectorAll(GRIP)];
    const rows = grips.map((grip) => grip.closest(ROW).getBoundingClientRect());
    const at = rows.findIndex((row) => y < row.top + row.height / 2);
    this.before = at < 0 ? "" : grips[at].textContent;
    const place = at < 0 ? rows.at(-1).bottom + 4 : rows[at].top - 6;
    const top = Math.min(Math.max(place, frame.top), frame.bottom);
    const [left, width] = [rows[0].left, rows[0].width];
    Object.assign(this.line.style, { left: `${left}px`, top: `${top}px`, width: `${width}px` });
  }

  begin() {
    this.line = document.createElement("div");
    this.line.className = "drop-line";
    document.body.append(this.line);
    this.grip.closest(ROW).classList.add("dragged");
  }

  drop() {
    const { grip, line, before } = this;
    this.end();
    if (line && before !== grip.textContent) this.tell(`move ${grip.textContent} ${before}`.trim());
  }

  end() {
    this.line?.remove();
    document.querySelector(`${ROW}.dragged`)?.classList.remove("dragged");
    this.grip = this.line = null;
  }
}
