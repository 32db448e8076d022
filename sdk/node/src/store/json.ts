/**
 * Writes values as JSON into the memory shared with the addon: like `JSON.stringify`, but rejects values that it would silently
 * drop or change.
 */
import { Buffer } from 'node:buffer';
import type { Bytes } from '../wire.js';
import { StoreError } from './error.js';
import { area } from './addon.js';
import { checkText, takePlace, uses } from './path.js';

/** Longest string written character by character; the runtime's function is faster for longer ones. */
const SHORT = 64;
/** Maximum nesting accepted by the store; also stops at cycles. */
const DEPTH_MAX = 200;

/** The target buffer: the shared area, or a larger buffer once that is full. */
let bytes: Bytes = area;
/** Keys and indexes of the value being written, for error messages. */
const trail: (string | number)[] = [];

/** Returned if the text must be fetched with {@link takeLong} and the path written again. */
export const CLOBBERED = -1;
const ISOLATED_BYTES = 4096;

/**
 * Writes a value after the path in the area; returns its end. Returns 0 if the text did not fit, and {@link CLOBBERED} if code in the value
 * (a `toJSON`, a getter, a proxy) has used a store itself and so overwritten the area; then {@link takeLong} has the text.
 *
 * @throws StoreError `not_json` with the position in the value.
 */
export function putJson(at: number, value: unknown): number {
  // May be called recursively, from code in a value that is being written.
  const outer = bytes;
  const before = uses;
  bytes = area;
  try {
    const end = write(at, value, 0);
    if (uses !== before) {
      bytes = Buffer.allocUnsafeSlow(ISOLATED_BYTES) as Bytes;
      const length = write(0, value, 0);
      long = bytes.utf8Slice(0, length);
      return CLOBBERED;
    }
    if (bytes === area) return end;
    long = bytes.utf8Slice(at, end);
    return 0;
  } finally {
    bytes = outer;
  }
}

/** A value as JSON text; rejects the same values as {@link putJson}. */
export function jsonText(value: unknown): string {
  const start = takePlace();
  const end = putJson(start, value);
  return end > 0 ? area.utf8Slice(start, end) : takeLong();
}

let long = '';

/** Returns the text that did not fit. */
export function takeLong(): string {
  const text = long;
  long = '';
  return text;
}

function write(at: number, value: unknown, depth: number): number {
  switch (typeof value) {
    case 'string':
      return writeString(at, value);
    case 'number':
      return writeNumber(at, value, depth);
    case 'boolean':
      return writeAscii(at, value ? 'true' : 'false');
    case 'bigint':
      return writeAscii(at, value.toString());
    case 'object':
      return value === null ? writeAscii(at, 'null') : writeObject(at, value, depth);
    default:
      return refuse(typeof value, depth);
  }
}

function writeObject(at: number, value: object, depth: number): number {
  if (depth >= DEPTH_MAX) refuse(`more than ${DEPTH_MAX} levels`, depth);
  if (Array.isArray(value)) return writeArray(at, value, depth);
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype !== Object.prototype && prototype !== null) {
    const { toJSON } = value as { toJSON?: unknown };
    if (typeof toJSON === 'function') return write(at, toJSON.call(value, ''), depth);
    if (isOpaque(value)) refuse(`a ${value.constructor.name}`, depth);
  }
  const keys = Object.keys(value);
  let to = room(at, 2);
  bytes[to++] = 0x7b;
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index]!;
    const member = (value as Record<string, unknown>)[key];
    if (member === undefined) continue;
    trail[depth] = key;
    to = writeString(to, key);
    bytes[to++] = 0x3a;
    to = room(write(to, member, depth + 1), 2);
    bytes[to++] = 0x2c;
  }
  if (bytes[to - 1] === 0x2c) to--;
  bytes[to] = 0x7d;
  return to + 1;
}

function writeArray(at: number, value: readonly unknown[], depth: number): number {
  let to = room(at, 2);
  bytes[to++] = 0x5b;
  for (let index = 0; index < value.length; index++) {
    trail[depth] = index;
    to = room(write(to, value[index], depth + 1), 2);
    bytes[to++] = 0x2c;
  }
  if (value.length > 0) to--;
  bytes[to] = 0x5d;
  return to + 1;
}

function writeString(at: number, text: string): number {
  const length = text.length;
  if (length > SHORT) return writeLongString(at, text);
  // Two quotes, and a colon that may follow.
  let to = room(at, length + 3);
  const target = bytes;
  target[to++] = 0x22;
  for (let index = 0; index < length; index++) {
    const code = text.charCodeAt(index);
    if (code > 127 || code < 0x20 || code === 0x22 || code === 0x5c) return writeLongString(at, text);
    target[to++] = code;
  }
  target[to] = 0x22;
  return to + 1;
}

function writeLongString(at: number, text: string): number {
  checkText(text);
  const quoted = JSON.stringify(text);
  const to = room(at, quoted.length * 3 + 1);
  return to + bytes.utf8Write(quoted, to, bytes.length - to);
}

function writeNumber(at: number, value: number, depth: number): number {
  if (!Number.isFinite(value)) refuse(String(value), depth);
  // -0 becomes 0, as with JSON.stringify.
  return writeAscii(at, String(value));
}

function writeAscii(at: number, text: string): number {
  let to = room(at, text.length);
  const target = bytes;
  for (let index = 0; index < text.length; index++) target[to++] = text.charCodeAt(index);
  return to;
}

/** Ensures that `need` bytes can be written at a position; returns the position. */
function room(at: number, need: number): number {
  if (at + need + 8 > bytes.length) {
    const larger = Buffer.allocUnsafeSlow(Math.max(bytes.length * 2, at + need + 8)) as Bytes;
    bytes.copy(larger, 0, 0, at);
    bytes = larger;
  }
  return at;
}

/** Whether JSON.stringify would lose the object's content. */
function isOpaque(value: object): boolean {
  return (
    value instanceof Map ||
    value instanceof Set ||
    value instanceof WeakMap ||
    value instanceof WeakSet ||
    value instanceof Promise ||
    value instanceof RegExp ||
    value instanceof Error ||
    value instanceof ArrayBuffer ||
    ArrayBuffer.isView(value) ||
    value instanceof String ||
    value instanceof Number ||
    value instanceof Boolean
  );
}

function refuse(what: string, depth: number): never {
  const place = trail.slice(0, depth).map((step) => (typeof step === 'number' ? `[${step}]` : `.${step}`));
  throw new StoreError('not_json', `cannot store ${what}${place.length > 0 ? ` at ${place.slice(0, 20).join('')}` : ''}`);
}
