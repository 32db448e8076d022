/**
 * Adapts a message dialect to the worker's loop, which works with frames: turns the frames that the loop writes into messages. A message
 * cannot be streamed, so the pieces of a response are collected.
 */
import {
  ABORT,
  BODY,
  END,
  HEADER_BYTES,
  LOG,
  RESET,
  RESPONSE,
  RESPONSE_TABLE_BYTES,
  WINDOW,
  frame,
  readPairs,
  readU32,
  writeU32,
  type Bytes,
} from '../wire.js';
import type { Engine } from '../worker/engine.js';
import type { Link } from '../worker/link.js';

/** The window of a response: practically unlimited, because pieces are collected as they are sent. */
export const WINDOW_BYTES = 0x7fff_ffff;
const SERVER_ENDS = 3;

/** A response, to be formatted by a dialect. */
export interface Outcome {
  readonly status: number;
  /** The protocol's number of the content type; 0 if the headers name it. */
  readonly kind: number;
  /** `[name, value, ...]`; values of Latin-1 characters. */
  readonly headers: readonly string[];
  readonly body: Bytes | string;
}

/** A log entry. */
export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields?: unknown;
  readonly request?: string;
}

/** Receives the responses. */
export interface ResponseSink {
  answer(number: number, outcome: Outcome): void;
  /** There is no complete response: it broke off, or is too long. */
  failed(number: number, why: string): void;
  log(line: LogLine): void;
}

export class Gateway implements Link {
  readonly backlog = 0;
  readonly #engine: Engine;
  readonly #generation: number;
  readonly #sink: ResponseSink;
  readonly #bytesMax: number;
  /** Responses that have not ended. */
  readonly #open = new Map<number, { outcome: Outcome; pieces: Uint8Array[]; size: number }>();

  constructor(engine: Engine, generation: number, bytesMax: number, sink: ResponseSink) {
    this.#engine = engine;
    this.#generation = generation;
    this.#bytesMax = bytesMax;
    this.#sink = sink;
  }

  #feed(bytes: Bytes): void {
    this.#engine.frames(bytes, 0, bytes.length);
  }

  answer(number: number, status: number, kind: number, headers: readonly string[], body: string | Uint8Array): void {
    const content = typeof body === 'string' ? body : (Buffer.from(body.buffer, body.byteOffset, body.length) as Bytes);
    this.#sink.answer(number, { status, kind, headers, body: content });
  }

  write(bytes: Uint8Array): void {
    const frame = bytes as Bytes;
    const number = readU32(frame, 8);
    const ends = (frame[5]! & END) !== 0;
    switch (frame[4]) {
      case RESPONSE:
        this.#response(number, frame, ends);
        break;
      case BODY:
        this.#piece(number, frame, ends);
        break;
      case RESET:
        if (this.#open.delete(number)) this.#sink.failed(number, 'the response broke off');
        break;
      case LOG:
        this.#sink.log(JSON.parse(frame.utf8Slice(HEADER_BYTES, frame.length)) as LogLine);
        break;
    }
  }

  #response(number: number, frame: Bytes, ends: boolean): void {
    const at = HEADER_BYTES + RESPONSE_TABLE_BYTES;
    const block = at + readU32(frame, HEADER_BYTES + 8);
    const body = frame.subarray(block) as Bytes;
    const outcome = {
      status: frame[HEADER_BYTES]! | (frame[HEADER_BYTES + 1]! << 8),
      kind: frame[HEADER_BYTES + 2]!,
      headers: block === at ? [] : readPairs(frame, at, block, 'latin1'),
      body,
    };
    if (ends) this.#sink.answer(number, outcome);
    else this.#open.set(number, { outcome, pieces: [body], size: body.length });
  }

  #piece(number: number, frame: Bytes, ends: boolean): void {
    const open = this.#open.get(number);
    if (open === undefined) return;
    const piece = frame.subarray(HEADER_BYTES);
    open.pieces.push(piece);
    open.size += piece.length;
    if (open.size > this.#bytesMax) {
      this.#open.delete(number);
      const why = `the response has more than ${this.#bytesMax} bytes (message_bytes_max)`;
      this.#sink.failed(number, why);
      queueMicrotask(() => this.#feed(frame1(ABORT, this.#generation, number, SERVER_ENDS)));
    } else if (ends) {
      this.#open.delete(number);
      const body = Buffer.concat(open.pieces) as Bytes;
      this.#sink.answer(number, { ...open.outcome, body });
    } else if (piece.length > 0) {
      queueMicrotask(() => this.#feed(frame4(WINDOW, this.#generation, number, piece.length)));
    }
  }
}

function frame1(type: number, generation: number, number: number, value: number): Bytes {
  return frame(type, 0, generation, number, number, Uint8Array.of(value));
}

function frame4(type: number, generation: number, number: number, value: number): Bytes {
  const payload = Buffer.allocUnsafe(4);
  writeU32(payload, 0, value);
  return frame(type, 0, generation, number, number, payload);
}
