// Completion of the names that a rule is written with. By itself the editor (Ace) completes words of its own text alone.

const EVERY_MS = 300; // a text that is put into the editor brings a new editor

export default function ({ data }) {
  const timer = setInterval(() => {
    const frame = /** @type {HTMLIFrameElement | null} */ (document.querySelector('.st-key-drawer iframe[title*="ace"]'));
    const element = /** @type {any} */ (frame?.contentDocument?.querySelector(".ace_editor"));
    const editor = element?.env?.editor;
    if (!editor?.completers || editor.completers.some((one) => one.isForRules)) return;
    const isForRules = true;
    const getCompletions = (_, session, { row, column }, prefix, done) => {
      const before = session.getLine(row).slice(0, column - prefix.length);
      done(null, completions(before, data.names));
    };
    editor.completers = [...editor.completers, { isForRules, getCompletions }];
  }, EVERY_MS);
  return () => clearInterval(timer);
}

/**
 * The names that may come behind the text `before` of a line: those of a module behind its name and a point, and the
 * decorator behind an at sign.
 * @param {string} before
 * @param {Record<string, string[]>} names by module
 */
export function completions(before, names) {
  const module = /(\w+)\.$/.exec(before)?.[1];
  const found = /^\s*@$/.test(before) ? ["fxopt.rewrite"] : module !== undefined ? (names[module] ?? []) : [];
  return found.map((value) => ({ value, score: 1000, meta: module ?? "fxopt" }));
}
