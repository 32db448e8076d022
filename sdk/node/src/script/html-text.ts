/** Replaces `html-text.ts` in scripts. */
import type { Html } from '../html.js';
import { host } from './host.js';

export function htmlOf(Marked: typeof Html): (texts: TemplateStringsArray, ...values: readonly unknown[]) => Html {
  return host.html.bind(null, Marked.prototype);
}
