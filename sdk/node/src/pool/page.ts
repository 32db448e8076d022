/** The pool's side of the page that it shares with a worker (protocol/PROTOCOL.md, section 6). */
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
  PAGE_BYTES,
  REVOKED,
  TAIL_WORD,
} from '../page-layout.js';
import { pageAddon } from '../page-addon.js';
import { HEADER_BYTES, PAD, type Bytes } from '../wire.js';

/** Receives a frame from the outbox: header fields, and its payload, which is valid until the callback returns. */
export type TakeFrame = (type: number, flags: number, generation: number, number: number, slot: number, bytes: Bytes, at: number, end: number) => void;

export class SharedPage {
  readonly #words: Int32Array;
  readonly #bytes: Bytes;
  /** Total bytes taken from the outbox. */
  #head = 0;

  constructor(memory: ArrayBuffer | SharedArrayBuffer) {
    this.#words = new Int32Array(memory);
    this.#bytes = Buffer.from(memory) as Bytes;
    this.#words.fill(0, 0, OUTBOX_AT / 4);
    this.#words[FORMAT_WORD] = FORMAT;
    this.#words[BELL_WORD] = 1;
  }

  /** Offers a job for the worker to claim. Call it before sending the REQUEST frame. */
  offer(slot: number, number: number): void {
    Atomics.store(this.#words, CLAIM_WORDS + slot, (number << 2) | OFFERED);
  }

  /** Revokes a job; `false` if the worker has claimed it. */
  revoke(slot: number, number: number): boolean {
    const offered = (number << 2) | OFFERED;
    return Atomics.compareExchange(this.#words, CLAIM_WORDS + slot, offered, (number << 2) | REVOKED) === offered;
  }

  isClaimed(slot: number, number: number): boolean {
    return Atomics.load(this.#words, CLAIM_WORDS + slot) === ((number << 2) | CLAIMED);
  }

  /**
   * Takes all frames from the outbox, then arms the bell. The worker's bytes are not trusted: returns `false` if they are not valid frames.
   */
  drain(take: TakeFrame): boolean {
    if (!this.#takeAll(take)) return false;
    Atomics.store(this.#words, BELL_WORD, 1);
    // Again, for frames written before the worker saw that the bell is armed.
    return this.#takeAll(take);
  }

  #takeAll(take: TakeFrame): boolean {
    const words = this.#words;
    const tail = Atomics.load(words, TAIL_WORD) >>> 0;
    let head = this.#head;
    while (head !== tail) {
      const offset = head & (OUTBOX_BYTES - 1);
      const word = (OUTBOX_AT + offset) >> 2;
      const length = words[word]! >>> 0;
      if (length > OUTBOX_BYTES - offset - HEADER_BYTES) return false;
      const kinds = words[word + 1]! >>> 0;
      if ((kinds & 0xff) !== PAD) {
        const at = OUTBOX_AT + offset + HEADER_BYTES;
        take(kinds & 0xff, (kinds >>> 8) & 0xff, kinds >>> 16, words[word + 2]! >>> 0, words[word + 3]! >>> 0, this.#bytes, at, at + length);
      }
      head = (head + ((HEADER_BYTES + length + 15) & ~15)) >>> 0;
    }
    this.#head = head;
    Atomics.store(words, HEAD_WORD, head | 0);
    return true;
  }
}

/** A page in a memory file, for a worker process. */
export interface PageFile {
  readonly fd: number;
  readonly memory: ArrayBuffer;
}

/** Pages of workers that have ended, for reuse: mapped memory is never unmapped. */
const freePages: PageFile[] = [];

/** A page for a worker process; `null` if there is no addon for this system. */
export function takePageFile(): PageFile | null {
  const page = freePages.pop();
  if (page !== undefined) return page;
  try {
    const addon = pageAddon();
    const fd = addon.createPage();
    return { fd, memory: addon.viewPage(fd) };
  } catch {
    return null;
  }
}

/** Returns a page for reuse once its process has ended. */
export function givePageFile(file: PageFile): void {
  freePages.push(file);
}

/** A page for a worker thread. */
export function pageMemory(): SharedArrayBuffer {
  return new SharedArrayBuffer(PAGE_BYTES);
}
