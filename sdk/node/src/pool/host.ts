/** What a worker runs in, a process or a thread, as its member of the pool sees it. */
import type { Handed } from '../handed.js';
import type { Bytes } from '../wire.js';
import type { SharedPage } from './page.js';

/** What a host tells of its worker. */
export interface HostEvents {
  /** Bytes of the link, cut anywhere, which are not written to later. */
  received(bytes: Bytes): void;
  /** There is something in the outbox. */
  rung(): void;
  /** A line of standard error. */
  line(text: string): void;
  /** It is over: everything that it wrote was told before. */
  ended(exitCode: number | null, signal: string | null): void;
}

/** Keeps nothing alive by itself: a program ends while workers are idle. */
export interface Host {
  readonly pid: number | null;
  readonly threadId: number | null;
  /** `null` where worker and pool share no memory. */
  readonly page: SharedPage | null;
  /** Sends bytes, whose memory the host keeps until they have left. */
  write(bytes: Uint8Array): void;
  /** Sends a frame with the value that it has with it; only threads can be given one. */
  hand?(bytes: Uint8Array<ArrayBuffer>, handed: Handed): void;
  /** Has the worker finish what it has and end, if it can still hear. */
  terminate(): void;
  /** Ends it now. */
  kill(): void;
  /** Resident memory in bytes; `null` where it is not known. */
  rss(): number | null;
}

/** Cuts a stream into lines, of which none is longer than a bound. */
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
