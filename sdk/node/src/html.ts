/** HTML whose values cannot become part of its markup. */
import { htmlOf } from './html-text.js';

/** A piece of HTML. Made by {@link html}; as an answer it is `text/html; charset=utf-8`. */
export class Html {
  /** Its markup. */
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
 * Builds HTML from a template. Values are escaped, so that they are text wherever they stand between tags or in a quoted attribute; arrays are their elements one after another, and `null`, `undefined` and `false` are nothing. What
 * is {@link Html} already stays as it is.
 *
 * ```js
 * const row = ({ id, name }) => html`<tr><td>${id}</td><td>${name}</td></tr>`;
 * app.get('/', async () => html`<table>${(await main.query('select id, name from users')).map(row)}</table>`);
 * ```
 */
export const html: (texts: TemplateStringsArray, ...values: readonly unknown[]) => Html = htmlOf(Html);

/** Takes text for HTML as it is. Whatever in it comes from somebody else can do to the page what it likes. */
export function unsafeHtml(text: string): Html {
  return new Html(String(text));
}
