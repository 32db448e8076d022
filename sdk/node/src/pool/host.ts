/** The host of a worker, a process or a thread, as its pool worker sees it. */
import type { Transfer } from '../transfer.js';
import type { Bytes } from '../wire.js';
import type { SharedPage } from './page.js';

/** Events that a host reports about its worker. */
export interface HostEvents {
  /** Bytes from the link, cut anywhere; the buffer is not reused. */
  received(bytes: Bytes): void;
  /** The outbox has new frames. */
  rung(): void;
  /** A line of standard error. */
  line(text: string): void;
  /** The worker has ended, and all of its output has been reported. */
  ended(exitCode: number | null, signal: string | null): void;
}

/** A host does not keep the program alive: a program may end while its workers are idle. */
export interface Host {
  readonly pid: number | null;
  readonly threadId: number | null;
  /** `null` if worker and pool share no memory. */
  readonly page: SharedPage | null;
  /** Sends bytes; the host owns the buffer until they are sent. */
  write(bytes: Uint8Array): void;
  /** Sends a frame together with a value. Threads only. */
  postTransfer?(bytes: Uint8Array<ArrayBuffer>, transfer: Transfer): void;
  /** Asks the worker to finish what it runs and end. */
  terminate(): void;
  /** Ends the worker at once. */
  kill(): void;
  /** Resident memory in bytes; `null` if unknown. */
  rss(): number | null;
}

/** Splits a stream into lines of bounded length. */
export class Lines {
  #rest = '';
  readonly #line: (text: string) => void;

  constructor(line: (text: string) => void) {
    this.#line = line;
  }

  push(text: string): void {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop()!;
    for (const line of lines) this.#line(line.slice(0, LINE_MAX));
    if (this.#rest.length > LINE_MAX) this.end();
  }

  end(): void {
    if (this.#rest !== '') this.#line(this.#rest.slice(0, LINE_MAX));
    this.#rest = '';
  }
}

/** Longest line of standard error, in characters. */
const LINE_MAX = 8_192;
