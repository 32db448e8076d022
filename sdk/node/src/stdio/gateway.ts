/**
 * Between a dialect of messages and the worker's loop, which knows frames: messages become REQUEST frames, what the loop writes becomes answers.
 * A message has no pieces, so pieces of an answer are gathered and those of a request's body handed out.
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
  requestFrame,
  writeU32,
  type Bytes,
  type RequestParts,
} from '../wire.js';
import type { Engine } from '../worker/engine.js';
import type { Link } from '../worker/link.js';

/** Body bytes of a request that its frame has; the rest follows as it is read. */
const INLINE_BYTES = 65_536;
/** Longest BODY frame of a request. */
const PIECE_BYTES = 1_048_576;
/** What an answer may send before it is gathered: without limit, as it is gathered at once. */
export const WINDOW_BYTES = 0x7fff_ffff;
const SERVER_ENDS = 3;

/** An answer as a dialect writes it. */
export interface Outcome {
  readonly status: number;
  /** The number of the content type in the protocol; 0 when the headers name it. */
  readonly kind: number;
  /** `[name, value, ...]`, values of Latin-1 characters. */
  readonly headers: readonly string[];
  readonly body: Bytes | string;
}

/** A line for the log. */
export interface LogLine {
  readonly level: string;
  readonly message: string;
  readonly fields?: unknown;
  readonly request?: string;
}

/** Where answers go. */
export interface Outward {
  answer(number: number, outcome: Outcome): void;
  /** There is no whole answer: it broke off, or is too long. */
  failed(number: number, why: string): void;
  log(line: LogLine): void;
}

export class Gateway implements Link {
  readonly backlog = 0;
  readonly #engine: Engine;
  readonly #generation: number;
  readonly #outward: Outward;
  readonly #bytesMax: number;
  /** Answers whose end has not been written. */
  readonly #open = new Map<number, { outcome: Outcome; pieces: Uint8Array[]; size: number }>();
  /** What is left of requests' bodies. */
  readonly #bodies = new Map<number, Uint8Array>();

  constructor(engine: Engine, generation: number, bytesMax: number, outward: Outward) {
    this.#engine = engine;
    this.#generation = generation;
    this.#bytesMax = bytesMax;
    this.#outward = outward;
  }

  /** Gives a request to the worker's loop; `number` is used for no other request that is open. */
  request(number: number, parts: RequestParts): void {
    const { body } = parts;
    const whole = body.length <= INLINE_BYTES;
    if (!whole) this.#bodies.set(number, body.subarray(INLINE_BYTES));
    const first = whole ? parts : { ...parts, body: body.subarray(0, INLINE_BYTES) };
    this.#feed(requestFrame(whole ? END : 0, this.#generation, number, number, first));
  }

  #feed(bytes: Bytes): void {
    this.#engine.frames(bytes, 0, bytes.length);
  }

  answer(number: number, status: number, kind: number, headers: readonly string[], body: string | Uint8Array): void {
    const content = typeof body === 'string' ? body : (Buffer.from(body.buffer, body.byteOffset, body.length) as Bytes);
    this.#over(number, () => this.#outward.answer(number, { status, kind, headers, body: content }));
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
        if (this.#open.delete(number)) this.#over(number, () => this.#outward.failed(number, 'the response broke off'));
        break;
      case WINDOW:
        // Whoever reads the body waits for it only after this.
        queueMicrotask(() => this.#hand(number, readU32(frame, HEADER_BYTES)));
        break;
      case LOG:
        this.#outward.log(JSON.parse(frame.utf8Slice(HEADER_BYTES, frame.length)) as LogLine);
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
    if (ends) this.#over(number, () => this.#outward.answer(number, outcome));
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
      this.#over(number, () => this.#outward.failed(number, why));
      queueMicrotask(() => this.#feed(frame1(ABORT, this.#generation, number, SERVER_ENDS)));
    } else if (ends) {
      this.#open.delete(number);
      const body = Buffer.concat(open.pieces) as Bytes;
      this.#over(number, () => this.#outward.answer(number, { ...open.outcome, body }));
    } else if (piece.length > 0) {
      queueMicrotask(() => this.#feed(frame4(WINDOW, this.#generation, number, piece.length)));
    }
  }

  #over(number: number, say: () => void): void {
    this.#bodies.delete(number);
    say();
  }

  /** Hands so many bytes of a request's body to its handler. */
  #hand(number: number, granted: number): void {
    const rest = this.#bodies.get(number);
    if (rest === undefined) return;
    let left = Math.min(granted, rest.length);
    let at = 0;
    while (left > 0) {
      const piece = rest.subarray(at, at + Math.min(left, PIECE_BYTES));
      at += piece.length;
      left -= piece.length;
      const last = at === rest.length;
      this.#feed(frame(BODY, last ? END : 0, this.#generation, number, number, piece));
    }
    if (at === rest.length) this.#bodies.delete(number);
    else this.#bodies.set(number, rest.subarray(at));
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
