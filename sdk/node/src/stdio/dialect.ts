/** The interface of message dialects. */
import type { Message } from '../source.js';
import type { Bytes } from '../wire.js';
import type { LogLine, Outcome } from './gateway.js';

/** A parsed message from the server. */
export type ServerMessage =
  | { readonly is: 'request'; readonly id: string | number; readonly request: Message }
  /** A request that cannot be passed to a handler. */
  | { readonly is: 'refused'; readonly id: string | number; readonly why: string }
  | { readonly is: 'result'; readonly call: unknown; readonly result: unknown }
  /** A text to be written at once. */
  | { readonly is: 'reply'; readonly text: string }
  | { readonly is: 'stop'; readonly now: boolean }
  | { readonly is: 'nothing' };

export interface Dialect {
  /** Interprets a message, given as a parsed JSON object and as its text. */
  read(message: Record<string, unknown>, text: string): ServerMessage;
  /** Formats a response. Like the following methods, returns text with a line end. */
  answer(id: string | number, outcome: Outcome): string;
  /** Formats the failure of a request without a complete response. */
  failed(id: string | number, why: string): string;
  /** Formats a call, given as JSON text, to the server. */
  call(id: string, text: string): string;
  /** Extracts the JSON text of the call's result from its message; null if the message is not formatted as the server does it. */
  result(id: string, message: string): string | null;
  log(line: LogLine): string;
}

/** Decodes a UTF-8 body; `null` if it is not valid UTF-8. */
export function textOf(body: Bytes | string): string | null {
  if (typeof body === 'string') return body.toWellFormed();
  const text = body.utf8Slice(0, body.length);
  // A replacement character may be in the body itself, or stand for invalid bytes.
  return text.includes('\ufffd') && !Buffer.from(text).equals(body) ? null : text;
}

/** The text of a JSON body. */
export function jsonOf(body: Bytes | string): string {
  return typeof body === 'string' ? body : body.utf8Slice(0, body.length);
}

/** Converts `[name, value, ...]` to `[[name, value], ...]`. */
export function headerPairs(headers: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index < headers.length; index += 2) pairs.push([headers[index]!, headers[index + 1]!]);
  return pairs;
}

/** The text between `start` and `end`; null if the text does not have that form. */
export function between(text: string, start: string, end: string): string | null {
  return text.startsWith(start) && text.endsWith(end) ? text.slice(start.length, -end.length) : null;
}

/** Replaces line ends, which are white space in JSON, by spaces. */
export function oneLine(json: string): string {
  return json.includes('\n') || json.includes('\r') ? json.replace(/[\r\n]/g, ' ') : json;
}
