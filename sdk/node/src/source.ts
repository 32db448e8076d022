/**
 * Reads the parts of a request: from the payload of a REQUEST frame (protocol/PROTOCOL.md, section 4), or from a parsed JSON message.
 * Scripts, which have neither, replace this module with one of the same functions.
 */
import { Buffer } from 'node:buffer';
import type { BodySource, User } from './request.js';
import { REQUEST_TABLE_BYTES, readPairs, readU32, type Bytes } from './wire.js';

/**
 * The payload is `bytes` from `at` to `end`; `more` is null if it contains the whole body. If `message` is set, all parts are read from
 * that.
 */
export interface Source {
  readonly bytes: Bytes;
  readonly at: number;
  readonly end: number;
  readonly more: BodySource | null;
  /** The client's port, 0 if that is not known, and behind its 16 bits a 1 if the client speaks TLS. */
  readonly connection: number;
  readonly message?: Message | undefined;
}

/** A request as a JSON message (protocol/PROTOCOL.md, section 7): header names in lower case, header values of Latin-1 characters. */
export interface Message {
  readonly method: string;
  readonly path: string;
  readonly query: string;
  readonly route: string;
  readonly peer: string;
  readonly user?: User;
  readonly request_id: string;
  /** Milliseconds until the deadline; 0: none. */
  readonly remaining_ms: number;
  readonly params: Readonly<Record<string, string>>;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body?: string;
  readonly body_base64?: string;
}

/** Indexes of the parts. */
export const PATH = 1;
export const QUERY = 2;
export const ROUTE = 3;
export const PARAMS = 4;
export const HEADERS = 5;
export const PEER = 6;
export const ID = 7;
/** Without the bit that says whether an identity follows. */
const LENGTH = 0x7fff_ffff;
const PERCENT = 37;

const BEYOND_ASCII = /[^\0-\x7f]/;
const NO_BYTES = Buffer.alloc(0) as Bytes;

/** Wraps a message as a source. */
export function messageSource(message: Message): Source {
  return { bytes: NO_BYTES, at: 0, end: 0, more: null, connection: 0, message };
}

/** Milliseconds until the deadline; 0: none. */
export function remainingMs({ bytes, at, message }: Source): number {
  return message === undefined ? readU32(bytes, at) : message.remaining_ms;
}

/** The length of the method, in bytes. */
export function methodLength({ bytes, at, message }: Source): number {
  return message === undefined ? readU32(bytes, at + 4) : Buffer.byteLength(message.method);
}

/** Method and path, concatenated and decoded as Latin-1, such as `GET/users`. */
export function methodAndPath({ bytes, at, message }: Source): string {
  if (message !== undefined) {
    const head = message.method + message.path;
    return BEYOND_ASCII.test(head) ? Buffer.from(head).toString('latin1') : head;
  }
  const start = at + REQUEST_TABLE_BYTES;
  return bytes.latin1Slice(start, start + readU32(bytes, at + 4) + readU32(bytes, at + 8));
}

/** Whether the text of `head` from `at` on needs no decoding: not empty, ASCII, without percent-encoding. */
export function isPlain(_: Source, head: string, at: number): boolean {
  for (let index = at; index < head.length; index++) {
    const code = head.charCodeAt(index);
    if (code > 126 || code === PERCENT) return false;
  }
  return at < head.length;
}

/** The text of a part. */
export function part(source: Source, index: number): string {
  const { bytes, at, message } = source;
  if (message !== undefined) return messagePart(message, index);
  const start = partAt(source, index);
  return bytes.utf8Slice(start, start + (readU32(bytes, at + 4 + index * 4) & LENGTH));
}

/** The identity of the client; null if the route asks for no authentication. */
export function user(source: Source): User | null {
  const { bytes, message } = source;
  if (message !== undefined) return message.user ?? null;
  const { start, length } = identityAt(source);
  return length === 0 ? null : (JSON.parse(bytes.utf8Slice(start, start + length)) as User);
}

/** `[name, value, ...]` of the parameters (UTF-8) or the headers (decoded as Latin-1). */
export function pairs(source: Source, index: typeof PARAMS | typeof HEADERS): string[] {
  const { message } = source;
  if (message !== undefined) return (index === HEADERS ? message.headers : Object.entries(message.params)).flat();
  return readPairs(source.bytes, partAt(source, index), partAt(source, index + 1), index === HEADERS ? 'latin1' : 'utf8');
}

/** All values of a header; `name` is in lower case. */
export function fieldValues(source: Source, name: string): string[] {
  const { bytes, message } = source;
  const values: string[] = [];
  if (message !== undefined) {
    for (const [known, value] of message.headers) if (known === name) values.push(value);
    return values;
  }
  const end = partAt(source, PEER);
  for (let at = partAt(source, HEADERS); at < end; ) {
    const length = readU32(bytes, at);
    const value = at + 8 + length;
    const next = value + readU32(bytes, at + 4);
    if (length === name.length && bytes.latin1Slice(at + 8, value) === name) values.push(bytes.latin1Slice(value, next));
    at = next;
  }
  return values;
}

/** The value of a header, `name` in lower case; values of a repeated header are joined. */
export function field(source: Source, name: string): string | null {
  const values = fieldValues(source, name);
  return values.length < 2 ? (values[0] ?? null) : values.join(name === 'cookie' ? '; ' : ', ');
}

/** The part of the body that arrived with the request, as text. */
export function bodyText(source: Source): string {
  const { message } = source;
  if (message?.body !== undefined) return message.body.toWellFormed();
  if (message !== undefined) return utf8(bodyBytes(source));
  return source.bytes.utf8Slice(bodyAt(source), source.end);
}

/** The part of the body that arrived with the request. */
export function bodyBytes(source: Source): Uint8Array {
  const { message } = source;
  if (message?.body_base64 !== undefined) return Buffer.from(message.body_base64, 'base64');
  if (message !== undefined) return Buffer.from(message.body ?? '');
  return source.bytes.subarray(bodyAt(source), source.end);
}

/** Whether any part of the body arrived with the request. */
export function hasBody(source: Source): boolean {
  const { message } = source;
  if (message !== undefined) return (message.body_base64 ?? message.body ?? '') !== '';
  return bodyAt(source) < source.end;
}

/** The source of the rest of the body; null if all of it arrived with the request. */
export function more(source: Source): BodySource | null {
  return source.more;
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(parts);
}

/** Decodes UTF-8. */
export function utf8(bytes: Uint8Array): string {
  return (bytes as Bytes).utf8Slice(0, bytes.length);
}

function messagePart(message: Message, index: number): string {
  switch (index) {
    case PATH:
      return message.path;
    case QUERY:
      return message.query;
    case ROUTE:
      return message.route;
    case PEER:
      return message.peer;
    default:
      return message.request_id;
  }
}

/** The place of the identity; the length is 0 if there is none. */
function identityAt(source: Source): { start: number; length: number } {
  const { bytes, at } = source;
  const ofId = readU32(bytes, at + 4 + ID * 4);
  const end = partAt(source, ID) + (ofId & LENGTH);
  return ofId > LENGTH ? { start: end + 4, length: readU32(bytes, end) } : { start: end, length: 0 };
}

function bodyAt(source: Source): number {
  const { start, length } = identityAt(source);
  return start + length;
}

function partAt({ bytes, at }: Source, index: number): number {
  let start = at + REQUEST_TABLE_BYTES;
  for (let before = 1; before <= index; before++) start += readU32(bytes, at + before * 4);
  return start;
}
