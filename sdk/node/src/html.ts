/** HTML templates with escaped values. */
import { htmlOf } from './html-text.js';

/** A piece of HTML, made by {@link html}. As a response it is sent as `text/html; charset=utf-8`. */
export class Html {
  /** The markup. */
  readonly text: string;

  /** @internal */
  constructor(text: string) {
    this.text = text;
  }

  toString(): string {
    return this.text;
  }
}

/**
 * Builds HTML from a template. Values are escaped, both between tags and in quoted attributes; the elements of an array are concatenated;
 * `null`, `undefined` and `false` become empty text. A value that is {@link Html} already is inserted unchanged.
 *
 * ```js
 * const row = ({ id, name }) => html`<tr><td>${id}</td><td>${name}</td></tr>`;
 * app.get('/', async () => html`<table>${(await main.query('select id, name from users')).map(row)}</table>`);
 * ```
 */
export const html: (texts: TemplateStringsArray, ...values: readonly unknown[]) => Html = htmlOf(Html);

/** Marks text as HTML without escaping it. Never pass untrusted input: it could run scripts in the page. */
export function unsafeHtml(text: string): Html {
  return new Html(String(text));
}
