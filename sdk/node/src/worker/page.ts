/**
 * The worker's side of the page that it shares with the server (protocol/PROTOCOL.md, section 6): claim words, outbox, doorbell.
 *
 * A frame in the outbox outlives this process; the tail is advanced only after the whole frame has been written.
 */
import { pageAddon } from '../page-addon.js';
import {
  BELL_WORD,
  CLAIMED,
  CLAIM_WORDS,
  FORMAT,
  FORMAT_WORD,
  HEAD_WORD,
  OFFERED,
  OUTBOX_AT,
  OUTBOX_BYTES,
  SLOTS,
  TAIL_WORD,
} from '../page-layout.js';
import {
  END,
  HEADER_BYTES,
  PAD,
  RESPONSE,
  RESPONSE_TABLE_BYTES,
  pairsBytes,
  writePairs,
  type Bytes,
} from '../wire.js';

/** Longest frame for the outbox, header included. */
const OUTBOX_FRAME_MAX = 32_768;
/** Longest time in milliseconds that a frame may wait before the doorbell is rung ahead of another handler. */
const UNANNOUNCED_MAX_MS = 0.2;

export class Page {
  readonly #words: Int32Array;
  readonly #bytes: Bytes;
  readonly #generation: number;
  readonly #ringBell: () => void;
  #tail: number;
  /** The server's head as last read; since then it can only have advanced. */
  #head: number;
  /** When the oldest unannounced frame was written; 0 if there is none. */
  #unannounced = 0;

  /** A page in memory that both sides share; `ringBell` wakes the other side. */
  constructor(memory: ArrayBuffer | SharedArrayBuffer, ringBell: () => void, generation: number) {
    this.#words = new Int32Array(memory);
    this.#bytes = Buffer.from(memory) as Bytes;
    const format = this.#words[FORMAT_WORD]! >>> 0;
    if (format !== FORMAT) {
      throw new Error(`the shared page has format 0x${format.toString(16)}, this SDK knows 0x${FORMAT.toString(16)}`);
    }
    this.#generation = generation;
    this.#ringBell = ringBell;
    this.#tail = Atomics.load(this.#words, TAIL_WORD) >>> 0;
    this.#head = Atomics.load(this.#words, HEAD_WORD) >>> 0;
  }

  /**
   * Maps the page, or returns null if the server provides none or the addon cannot be loaded: then the worker answers
   * on the link, one job at a time.
   */
  static open(page: string | undefined, bell: string | undefined, generation: number): Page | null {
    if (page === undefined || bell === undefined) return null;
    try {
      const addon = pageAddon();
      const fd = Number(bell);
      // Only the server holds responses back until commits are on disk; workers of other parents need not report their commits.
      const memory = process.env['FOREBAY_PARENT'] === undefined ? addon.mapPage(Number(page)) : addon.viewPage(Number(page));
      return new Page(memory, () => addon.ring(fd), generation);
    } catch (error) {
      process.stderr.write(`forebay: works without the shared page: ${(error as Error).message}\n`);
      return null;
    }
  }

  /** Claims a job; false if the server has revoked it. */
  claim(job: number, slot: number): boolean {
    if (slot >= SLOTS) return false;
    const word = job << 2;
    const offered = word | OFFERED;
    return Atomics.compareExchange(this.#words, CLAIM_WORDS + slot, offered, word | CLAIMED) === offered;
  }

  /**
   * Writes a RESPONSE frame with END to the outbox; `headers` is a flat list of Latin-1 names and values. Returns false and
   * writes nothing if the frame is too long or the ring is full.
   */
  put(
    flags: number,
    job: number,
    slot: number,
    status: number,
    kind: number,
    micros: number,
    headers: readonly string[],
    body: string | Uint8Array,
    now: number,
  ): boolean {
    const block = headers.length === 0 ? 0 : pairsBytes(headers);
    const before = HEADER_BYTES + RESPONSE_TABLE_BYTES + block;
    // A UTF-16 code unit takes at most three bytes in UTF-8; the exact length is computed only if that might not fit.
    let room = typeof body === 'string' ? body.length * 3 : body.length;
    let at = this.#reserve(before + room);
    if (at < 0) {
      if (typeof body !== 'string') return false;
      room = Buffer.byteLength(body);
      at = this.#reserve(before + room);
      if (at < 0) return false;
    }
    if (block > 0) writePairs(this.#bytes, at + HEADER_BYTES + RESPONSE_TABLE_BYTES, headers);
    if (room > 0) {
      if (typeof body === 'string') room = this.#bytes.utf8Write(body, at + before, room);
      else this.#bytes.set(body, at + before);
    }
    const words = this.#words;
    const word = at >> 2;
    words[word] = RESPONSE_TABLE_BYTES + block + room;
    words[word + 1] = RESPONSE | ((flags | END) << 8) | (this.#generation << 16);
    words[word + 2] = job;
    words[word + 3] = slot;
    words[word + 4] = status | (kind << 16);
    words[word + 5] = micros;
    words[word + 6] = block;
    this.#tail = (this.#tail + ((before + room + 15) & ~15)) >>> 0;
    Atomics.store(words, TAIL_WORD, this.#tail | 0);
    if (this.#unannounced === 0) this.#unannounced = now;
    return true;
  }

  /** Rings if frames have waited too long; call it before a handler starts. */
  ringIfLate(now: number): void {
    if (this.#unannounced !== 0 && now - this.#unannounced > UNANNOUNCED_MAX_MS) this.ring();
  }

  /** Rings if frames were written since the last ring; costs almost nothing if there are none or the server is awake. */
  ring(): void {
    if (this.#unannounced === 0) return;
    this.#unannounced = 0;
    if (Atomics.exchange(this.#words, BELL_WORD, 0) === 1) this.#ringBell();
  }

  /** Reserves `size` bytes in the outbox; returns their position, or -1. Writes the PAD frame needed to wrap around. */
  #reserve(size: number): number {
    if (size > OUTBOX_FRAME_MAX) return -1;
    const offset = this.#tail & (OUTBOX_BYTES - 1);
    const rest = OUTBOX_BYTES - offset;
    const padding = size > rest ? rest : 0;
    if (!this.#hasRoom(padding + size)) return -1;
    if (padding === 0) return OUTBOX_AT + offset;
    const word = (OUTBOX_AT + offset) >> 2;
    this.#words[word] = rest - HEADER_BYTES;
    this.#words[word + 1] = PAD | (this.#generation << 16);
    this.#words[word + 2] = 0;
    this.#words[word + 3] = 0;
    this.#tail = (this.#tail + rest) >>> 0;
    return OUTBOX_AT;
  }

  #hasRoom(size: number): boolean {
    if (OUTBOX_BYTES - ((this.#tail - this.#head) >>> 0) >= size) return true;
    this.#head = Atomics.load(this.#words, HEAD_WORD) >>> 0;
    return OUTBOX_BYTES - ((this.#tail - this.#head) >>> 0) >= size;
  }
}
