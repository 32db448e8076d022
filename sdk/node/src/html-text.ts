/** Builds HTML text from templates. Scripts replace this module with their own. */
import type { Html } from './html.js';

const SPECIAL = /[&<>"']/;
const SPECIALS = /[&<>"']/g;
const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** Maximum nesting of arrays; stops at circular ones. */
const DEPTH_MAX = 64;

/** Makes a template function that escapes its values, except for instances of `Marked`, which is also what it returns. */
export function htmlOf(Marked: typeof Html): (texts: TemplateStringsArray, ...values: readonly unknown[]) => Html {
  return (texts, ...values) => {
    if (!Array.isArray(texts?.raw)) throw new TypeError('html is called with a template: html`<p>${text}</p>`');
    let out = texts[0]!;
    for (let index = 0; index < values.length; index++) out += textOf(values[index], Marked, DEPTH_MAX) + texts[index + 1];
    return new Marked(out);
  };
}

function textOf(value: unknown, Marked: typeof Html, depth: number): string {
  if (value === null || value === undefined || value === false) return '';
  if (value instanceof Marked) return value.text;
  if (Array.isArray(value)) {
    if (depth === 0) throw new RangeError(`arrays of HTML are at most ${DEPTH_MAX} in one another`);
    let out = '';
    for (const element of value) out += textOf(element, Marked, depth - 1);
    return out;
  }
  const text = String(value);
  return SPECIAL.test(text) ? text.replace(SPECIALS, (character) => ESCAPES[character]!) : text;
}
