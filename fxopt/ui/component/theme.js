// Colors and fonts, read from graph.css, which takes them from Streamlit's variables: light and dark alike.

export class Theme {
  constructor(root) {
    this.root = root;
    this.probe = root.appendChild(document.createElement("i"));
    this.probe.hidden = true;
    this.scale = 1; // of the type, against the usual size
    this.read();
  }

  // Whether anything has changed since the last time.
  read() {
    const style = getComputedStyle(this.root);
    const key = [
      style.backgroundColor, style.color, style.getPropertyValue("--fx-accent"), style.fontFamily, style.fontSize,
    ].join();
    if (key === this.key) return false;
    this.key = key;
    this.cache = new Map();
    this.scale = parseFloat(style.fontSize) / 13;
    this.back = this.color("--fx-back");
    this.text = this.color("--fx-text");
    this.muted = this.color("--fx-muted");
    this.line = this.color("--fx-line");
    this.faint = this.color("--fx-faint");
    this.frame = this.color("--fx-frame");
    this.rule = this.color("--fx-rule");
    this.accent = this.color("--fx-accent");
    this.chosen = this.color("--fx-chosen");
    this.changed = this.color("--fx-changed");
    this.created = this.color("--fx-created");
    this.removed = this.color("--fx-removed");
    this.failed = this.color("--fx-failed");
    this.path = this.color("--fx-path");
    this.became = this.color("--fx-became");
    this.probe.style.fontFamily = "var(--fx-code-font)";
    const code = getComputedStyle(this.probe).fontFamily;
    this.titleFont = `500 11.5px ${code}`;
    this.groupFont = `600 11.5px ${code}`;
    this.textFont = `10.5px ${style.fontFamily}`;
    this.badgeFont = `700 9.5px ${style.fontFamily}`;
    this.frameFont = (size) => `600 ${size}px ${style.fontFamily}`;
    return true;
  }

  color(variable) {
    return this.resolve(`var(${variable})`);
  }

  fill(kind) {
    return this.resolve(`var(--fx-fill-${kind})`);
  }

  edge(kind) {
    return this.resolve(`var(--fx-edge-${kind})`);
  }

  // A pass's color, moved towards the text color so that the palest still shows on the page.
  mark(color) {
    return this.resolve(`color-mix(in oklab, ${color} 82%, var(--fx-text))`);
  }

  resolve(css) {
    let value = this.cache.get(css);
    if (value === undefined) {
      this.probe.style.color = css;
      value = getComputedStyle(this.probe).color;
      this.cache.set(css, value);
    }
    return value;
  }
}
