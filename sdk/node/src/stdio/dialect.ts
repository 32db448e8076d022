/** What tells one dialect of messages from another. */
import type { Message } from '../source.js';
import type { Bytes } from '../wire.js';
import type { LogLine, Outcome } from './gateway.js';

/** A message of the server. */
export type Incoming =
  | { readonly is: 'request'; readonly id: string | number; readonly request: Message }
  /** A request that cannot be given to a handler. */
  | { readonly is: 'refused'; readonly id: string | number; readonly why: string }
  | { readonly is: 'result'; readonly call: unknown; readonly result: unknown }
  /** To be written at once. */
  | { readonly is: 'reply'; readonly text: string }
  | { readonly is: 'stop'; readonly now: boolean }
  | { readonly is: 'nothing' };

export interface Dialect {
  /** Reads a message: an object of JSON, and its text. */
  read(message: Record<string, unknown>, text: string): Incoming;
  /** Writes an answer. All of these end with a line end. */
  answer(id: string | number, outcome: Outcome): string;
  /** Writes that there is no answer. */
  failed(id: string | number, why: string): string;
  /** Asks for what a JSON text says. */
  call(id: string, text: string): string;
  /** The JSON text of the result of this call, as it stands in its message; null where it stands in another way than the server writes it. */
  result(id: string, message: string): string | null;
  log(line: LogLine): string;
}

/** The text of a body that is UTF-8; `null`: it is not. */
export function textOf(body: Bytes | string): string | null {
  if (typeof body === 'string') return body.toWellFormed();
  const text = body.utf8Slice(0, body.length);
  // A replacement character stands for what is not UTF-8, or for itself.
  return text.includes('\ufffd') && !Buffer.from(text).equals(body) ? null : text;
}

/** The text of a body that is JSON. */
export function jsonOf(body: Bytes | string): string {
  return typeof body === 'string' ? body : body.utf8Slice(0, body.length);
}

/** `[[name, value], ...]` of `[name, value, ...]`. */
export function headerPairs(headers: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index < headers.length; index += 2) pairs.push([headers[index]!, headers[index + 1]!]);
  return pairs;
}

/** What stands between the two; null when it does not stand there. */
export function between(text: string, start: string, end: string): string | null {
  return text.startsWith(start) && text.endsWith(end) ? text.slice(start.length, -end.length) : null;
}

/** JSON without line ends, which are white space in it. */
export function oneLine(json: string): string {
  return json.includes('\n') || json.includes('\r') ? json.replace(/[\r\n]/g, ' ') : json;
}
