/**
 * Encodes values as bodies of requests and responses: as JSON if that preserves the value, otherwise by the runtime's structured clone,
 * which preserves Date, Map, bytes, BigInt and cycles.
 *
 * A first byte that cannot begin JSON text marks a structured clone.
 */
import { deserialize, serialize } from 'node:v8';
import { TRANSFER_MARK, valueWith } from './transfer.js';
import type { Bytes } from './wire.js';

/** JSON text, or a structured clone with {@link CLONE_MARK} in front. */
export type Encoded = string | Uint8Array;

/** The first byte of a structured clone. */
export const CLONE_MARK = 0xff;
/** Values nested more deeply are cloned; this also catches cycles, which JSON cannot represent. */
const JSON_DEPTH_MAX = 32;

/**
 * Encodes a value; `undefined` becomes the empty text.
 * @throws what the runtime throws for a value that cannot be cloned, such as a function.
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

/** Decodes the value between `at` and `end`. Byte arrays in it may share the memory of `bytes`. */
export function decode(bytes: Bytes, at: number, end: number): unknown {
  if (at === end) return undefined;
  if (bytes[at] === TRANSFER_MARK) return valueWith(bytes);
  if (bytes[at] === CLONE_MARK) return deserialize(bytes.subarray(at + 1, end)) as unknown;
  return JSON.parse(bytes.utf8Slice(at, end)) as unknown;
}

/** Whether JSON preserves the value. Named properties of arrays and the identity of repeated objects are not considered. */
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
