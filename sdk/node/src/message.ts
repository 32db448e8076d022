/**
 * Values as the bodies of requests and answers, in JSON where that keeps them as they are and in the runtime's structured clone elsewhere: what has a Date, a Map, bytes, a BigInt, a
 * cycle in it arrives as such.
 *
 * One byte that no JSON begins with tells the two apart.
 */
import { deserialize, serialize } from 'node:v8';
import { HANDED_MARK, valueWith } from './handed.js';
import type { Bytes } from './wire.js';

/** JSON text, or bytes of a structured clone with {@link CLONE_MARK} before them. */
export type Encoded = string | Uint8Array;

/** The first byte of a structured clone. */
export const CLONE_MARK = 0xff;
/** Deeper values are cloned, which knows cycles. */
const JSON_DEPTH_MAX = 32;

/**
 * A value as it is sent; `undefined` is the empty text.
 * @throws what the runtime throws for a value that has no clone, as a function.
 */
export function encode(value: unknown): Encoded {
  if (isJson(value, JSON_DEPTH_MAX)) return JSON.stringify(value);
  if (value === undefined) return '';
  const clone = serialize(value);
  const bytes = Buffer.allocUnsafe(clone.length + 1);
  bytes[0] = CLONE_MARK;
  bytes.set(clone, 1);
  return bytes;
}

/** The value between `at` and `end`. Bytes in it may lie in the same memory. */
export function decode(bytes: Bytes, at: number, end: number): unknown {
  if (at === end) return undefined;
  if (bytes[at] === HANDED_MARK) return valueWith(bytes);
  if (bytes[at] === CLONE_MARK) return deserialize(bytes.subarray(at + 1, end)) as unknown;
  return JSON.parse(bytes.utf8Slice(at, end)) as unknown;
}

/** Whether JSON keeps a value as it is, but for names given to arrays and for objects that are met twice. */
function isJson(value: unknown, depth: number): boolean {
  switch (typeof value) {
    case 'string':
    case 'boolean':
      return true;
    case 'number':
      return value - value === 0 && (value !== 0 || 1 / value > 0);
    case 'object': {
      if (value === null) return true;
      if (depth === 0) return false;
      if (Array.isArray(value)) {
        for (let index = 0; index < value.length; index++) if (!isJson(value[index], depth - 1)) return false;
        return true;
      }
      const prototype: unknown = Object.getPrototypeOf(value);
      if (prototype !== Object.prototype && prototype !== null) return false;
      for (const name in value) if (!isJson((value as Record<string, unknown>)[name], depth - 1)) return false;
      return true;
    }
    default:
      return false;
  }
}
