/**
 * Responses in parts: what a handler sends ahead, then its reply or its error. A part is the number of its bytes, its kind and an encoded
 * value.
 */
import { readU32, writeU32, type Bytes } from './wire.js';
import { decode, type Encoded } from './message.js';

/** The content type of a response in parts. */
export const PARTS_TYPE = 'application/vnd.forebay.parts';

/** Whether a response with these headers, `[name, value, ...]`, comes in parts. */
export function isParts(headers: readonly string[]): boolean {
  return headers[0] === 'content-type' && headers[1] === PARTS_TYPE;
}

export const PART = 0;
export const REPLY = 1;
export const FAILURE = 2;

const HEADER = 5;

/** Encodes a part. */
export function part(kind: number, value: Encoded): Uint8Array {
  const length = typeof value === 'string' ? Buffer.byteLength(value) : value.length;
  const bytes = Buffer.allocUnsafe(HEADER + length) as Bytes;
  writeU32(bytes, 0, length);
  bytes[4] = kind;
  if (typeof value === 'string') bytes.utf8Write(value, HEADER, length);
  else bytes.set(value, HEADER);
  return bytes;
}

/** Splits a byte stream into parts; pieces of the stream may be cut anywhere. */
export class PartReader {
  #rest: Bytes | null = null;

  /** Adds a piece, which the caller must not change later, and calls `take` for each part that is complete. */
  push(piece: Bytes, take: (kind: number, value: unknown) => void): void {
    let bytes = piece;
    if (this.#rest !== null) bytes = Buffer.concat([this.#rest, piece]) as Bytes;
    let at = 0;
    while (bytes.length - at >= HEADER) {
      const end = at + HEADER + readU32(bytes, at);
      if (end > bytes.length) break;
      take(bytes[at + 4]!, decode(bytes, at + HEADER, end));
      at = end;
    }
    this.#rest = at < bytes.length ? (bytes.subarray(at) as Bytes) : null;
  }
}
