/** In the place of `html-text.ts` in scripts. */
import type { Html } from '../html.js';
import { host } from './host.js';

export function htmlText(texts: readonly string[], values: readonly unknown[], Marked: typeof Html): string {
  return host.html(texts, values, Marked.prototype);
}
