/**
 * Frames of the worker protocol (protocol/PROTOCOL.md, sections 2 to 6): numbers, sizes, and the layouts that are
 * read or written in more than one place. Handles bytes only, no sockets.
 */
import { Buffer } from 'node:buffer';

/** A `Buffer` with methods that both runtimes have but `@types/node` omits; they avoid looking up the encoding. */
export interface Bytes extends Buffer {
  latin1Slice(start: number, end: number): string;
  utf8Slice(start: number, end: number): string;
  utf8Write(text: string, offset: number, length: number): number;
  latin1Write(text: string, offset: number, length: number): number;
}

export const PROTOCOL = 1;
export const HEADER_BYTES = 16;
export const FRAME_PAYLOAD_MAX = 1_048_576;

export const PAD = 0x00;
export const HELLO = 0x01;
export const INIT = 0x02;
export const READY = 0x03;
export const FAILED = 0x04;
export const DRAIN = 0x05;
export const LOG = 0x06;
export const PROFILE = 0x07;
export const PROFILED = 0x08;
export const REQUEST = 0x10;
export const BODY = 0x11;
export const WINDOW = 0x12;
export const ABORT = 0x13;
export const RESET = 0x14;
export const TRAILERS = 0x15;
export const RESPONSE = 0x20;
export const UPGRADE = 0x30;
export const MESSAGE = 0x31;
export const CLOSE = 0x32;
export const JOIN = 0x33;
export const LEAVE = 0x34;
export const PUBLISH = 0x35;
export const CALL = 0x40;
export const RETURN = 0x41;

/** The slot of a job that has left its own: its number alone names it. */
export const DETACHED_SLOT = 4096;

/** On REQUEST, BODY, RESPONSE, MESSAGE, CALL and RETURN: this frame ends the body, or the message. */
export const END = 0x01;
/** On RESPONSE: the handler threw. On RETURN: the call failed. */
export const FAULT = 0x02;
/** On RESPONSE: the job leaves its slot, and its body may last. */
export const DETACHED = 0x04;
/** On UPGRADE: the server speaks WebSocket with the client, and messages pass. */
export const WEBSOCKET = 0x04;
/** On MESSAGE and PUBLISH: the message is text, not binary. */
export const TEXT = 0x04;

/** On REQUEST: the payload ends with {@link CONNECTION_BYTES} about the client's connection. */
export const CONNECTION = 0x10;
/** Bytes about the client's connection: u16 port, or 0 if that is not known, and 1 if the client speaks TLS. */
export const CONNECTION_BYTES = 4;

/** Bytes of a REQUEST payload before `method`. */
export const REQUEST_TABLE_BYTES = 36;
/** Bytes of a RESPONSE payload before `headers`. */
export const RESPONSE_TABLE_BYTES = 12;
/** Bytes of a CALL or RETURN payload before the body. */
export const CALL_NUMBER_BYTES = 4;

/** Content types that a RESPONSE names by number; the index is the number. */
export const CONTENT_TYPES = [
  undefined,
  'application/json',
  'text/plain; charset=utf-8',
  'application/octet-stream',
  'text/html; charset=utf-8',
] as const;
export const KIND_NONE = 0;
export const KIND_JSON = 1;
export const KIND_TEXT = 2;
export const KIND_BYTES = 3;
export const KIND_HTML = 4;

/** Reads the u32 at `at`; the caller ensures that four bytes are available. */
export function readU32(bytes: Uint8Array, at: number): number {
  return (bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)) >>> 0;
}

export function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value;
  bytes[at + 1] = value >>> 8;
  bytes[at + 2] = value >>> 16;
  bytes[at + 3] = value >>> 24;
}

/** Writes the 16 bytes of a frame header at `at`; `length` is that of the payload. */
export function writeHeader(
  bytes: Uint8Array,
  at: number,
  length: number,
  type: number,
  flags: number,
  generation: number,
  job: number,
  slot: number,
): void {
  writeU32(bytes, at, length);
  bytes[at + 4] = type;
  bytes[at + 5] = flags;
  bytes[at + 6] = generation;
  bytes[at + 7] = generation >>> 8;
  writeU32(bytes, at + 8, job);
  writeU32(bytes, at + 12, slot);
}

/** A whole frame in a new buffer. */
export function frame(
  type: number,
  flags: number,
  generation: number,
  job: number,
  slot: number,
  payload: Uint8Array | string = '',
): Bytes {
  const length = typeof payload === 'string' ? Buffer.byteLength(payload) : payload.length;
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + length) as Bytes;
  writeHeader(bytes, 0, length, type, flags, generation, job, slot);
  if (typeof payload === 'string') bytes.utf8Write(payload, HEADER_BYTES, length);
  else bytes.set(payload, HEADER_BYTES);
  return bytes;
}

/** The CALL frames of one call: one, or as many as its body needs. */
export function callFrames(generation: number, job: number, slot: number, number: number, text: string): Bytes {
  const piece = FRAME_PAYLOAD_MAX - CALL_NUMBER_BYTES;
  const length = Buffer.byteLength(text);
  const count = Math.max(1, Math.ceil(length / piece));
  const before = HEADER_BYTES + CALL_NUMBER_BYTES;
  const bytes = Buffer.allocUnsafe(length + count * before) as Bytes;
  // The text is written where the last frame's body ends; its pieces are then moved to their places.
  const body = bytes.length - length;
  bytes.utf8Write(text, body, length);
  for (let index = 0; index < count; index++) {
    const at = index * (before + piece);
    const from = body + index * piece;
    const size = Math.min(piece, length - index * piece);
    bytes.copyWithin(at + before, from, from + size);
    writeHeader(bytes, at, CALL_NUMBER_BYTES + size, CALL, index === count - 1 ? END : 0, generation, job, slot);
    writeU32(bytes, at + HEADER_BYTES, number);
  }
  return bytes;
}

/**
 * Reads a pair block (section 4) into `[name, value, name, value, ...]`. Names and values of headers are bytes and come
 * out as Latin-1 text, as on the web; parameters are UTF-8.
 */
export function readPairs(bytes: Bytes, at: number, end: number, encoding: 'latin1' | 'utf8'): string[] {
  const pairs: string[] = [];
  while (at < end) {
    const name = at + 8;
    const value = name + readU32(bytes, at);
    const next = value + readU32(bytes, at + 4);
    if (encoding === 'latin1') pairs.push(bytes.latin1Slice(name, value), bytes.latin1Slice(value, next));
    else pairs.push(bytes.utf8Slice(name, value), bytes.utf8Slice(value, next));
    at = next;
  }
  return pairs;
}

/** Bytes that {@link writePairs} needs for these `[name, value, ...]`, whose characters are all below U+0100. */
export function pairsBytes(pairs: readonly string[]): number {
  let bytes = pairs.length * 4;
  for (const text of pairs) bytes += text.length;
  return bytes;
}

/** Writes a pair block of Latin-1 text at `at` and returns its end. */
export function writePairs(bytes: Bytes, at: number, pairs: readonly string[]): number {
  for (let index = 0; index < pairs.length; index += 2) {
    const name = pairs[index]!;
    const value = pairs[index + 1]!;
    writeU32(bytes, at, name.length);
    writeU32(bytes, at + 4, value.length);
    bytes.latin1Write(name, at + 8, name.length);
    bytes.latin1Write(value, at + 8 + name.length, value.length);
    at += 8 + name.length + value.length;
  }
  return at;
}

/** A RESPONSE or UPGRADE frame in a new buffer; `micros` is the handler's run time so far. */
export function responseFrame(
  type: typeof RESPONSE | typeof UPGRADE,
  flags: number,
  generation: number,
  job: number,
  slot: number,
  status: number,
  kind: number,
  micros: number,
  headers: readonly string[],
  body: Uint8Array,
): Bytes {
  const block = pairsBytes(headers);
  const length = RESPONSE_TABLE_BYTES + block + body.length;
  const bytes = Buffer.allocUnsafe(HEADER_BYTES + length) as Bytes;
  writeHeader(bytes, 0, length, type, flags, generation, job, slot);
  writeU32(bytes, HEADER_BYTES, status | (kind << 16));
  writeU32(bytes, HEADER_BYTES + 4, micros);
  writeU32(bytes, HEADER_BYTES + 8, block);
  bytes.set(body, writePairs(bytes, HEADER_BYTES + RESPONSE_TABLE_BYTES, headers));
  return bytes;
}

/** The parts of a REQUEST payload in order, as text. */
export interface RequestParts {
  /** Milliseconds until the deadline; 0: none. */
  remainingMs: number;
  method: string;
  path: string;
  query: string;
  route: string;
  /** `[name, value, ...]`, percent-decoded. */
  params: readonly string[];
  /** `[name, value, ...]`, names in lower case, values of Latin-1 characters. */
  headers: readonly string[];
  peer: string;
  id: string;
  /** The identity of the client, as JSON. */
  identity?: string | undefined;
  body: Uint8Array;
}

/** Builds the payload of a REQUEST frame as the server writes it. */
export function requestPayload(request: RequestParts): Bytes {
  const { remainingMs, method, path, query, route, params, headers, peer, id, identity = '', body } = request;
  // Each UTF-8 byte becomes one Latin-1 character, so that it passes through a pair block unchanged.
  const named = params.length === 0 ? params : params.map((text) => Buffer.from(text).toString('latin1'));
  const texts = [method, path, query, route];
  const lengths = texts.map((text) => Buffer.byteLength(text));
  lengths.push(pairsBytes(named), pairsBytes(headers), Buffer.byteLength(peer), Buffer.byteLength(id));
  const identityBytes = Buffer.byteLength(identity);
  let length = REQUEST_TABLE_BYTES + body.length + (identity === '' ? 0 : 4 + identityBytes);
  for (const part of lengths) length += part;
  const bytes = Buffer.allocUnsafe(length) as Bytes;
  writeU32(bytes, 0, remainingMs);
  let at = 4;
  for (const part of lengths) {
    writeU32(bytes, at, part);
    at += 4;
  }
  for (const [index, text] of texts.entries()) at += bytes.utf8Write(text, at, lengths[index]!);
  at = writePairs(bytes, writePairs(bytes, at, named), headers);
  at += bytes.utf8Write(peer, at, lengths[6]!);
  at += bytes.utf8Write(id, at, lengths[7]!);
  if (identity !== '') {
    bytes[REQUEST_TABLE_BYTES - 1]! |= 0x80;
    writeU32(bytes, at, identityBytes);
    at += 4 + bytes.utf8Write(identity, at + 4, identityBytes);
  }
  bytes.set(body, at);
  return bytes;
}
