/** One claimed request on its way through the handler: the handler's context, and the two bodies' flow control. */
import type { Context, Log, WorkerContext, WorkerInfo, WorkerState } from '../context.js';
import { goneError } from '../gone.js';
import { WireRequest, type BodySource } from '../request.js';
import { remainingMs, type Source } from '../source.js';

/** Bytes of request body a reading handler grants ahead; half of it used up brings the next grant. */
const READ_WINDOW_BYTES = 262_144;

/** What a job needs of the worker around it. */
export interface JobOwner {
  readonly context: WorkerContext;
  /** A log whose lines name the job. */
  logOf(job: Job): Log;
  /** Allows the server to send so many more bytes of the job's body. */
  grant(job: Job, bytes: number): void;
}

export class Job implements Context, BodySource {
  readonly number: number;
  readonly slot: number;
  readonly request: WireRequest;
  /** When the handler was started, on the clock of `performance.now()`. */
  readonly started: number;
  /** Bytes of BODY payload the worker may still send. */
  window: number;
  /** Whether what it may have written could not be committed. */
  isLost = false;
  /** Called when the window grows or the job is aborted: whoever streams the response waits on it. */
  wake: (() => void) | null = null;
  readonly #owner: JobOwner;
  /** On the same clock; 0 without a deadline. */
  readonly #deadline: number;
  #controller: AbortController | null = null;
  #gone = 0;
  #incoming: Incoming | null = null;
  #answered = false;

  constructor(
    owner: JobOwner,
    source: Source,
    whole: boolean,
    number: number,
    slot: number,
    received: number,
    started: number,
    window: number,
  ) {
    this.#owner = owner;
    this.number = number;
    this.slot = slot;
    this.started = started;
    this.window = window;
    const left = remainingMs(source);
    this.#deadline = left === 0 ? 0 : received + left;
    this.request = new WireRequest(whole ? source : { ...source, more: this });
  }

  get state(): WorkerState {
    return this.#owner.context.state;
  }

  get worker(): WorkerInfo {
    return this.#owner.context.worker;
  }

  get log(): Log {
    return this.#owner.logOf(this);
  }

  get deadline(): Date | null {
    return this.#deadline === 0 ? null : new Date(performance.timeOrigin + this.#deadline);
  }

  remaining(): number {
    return this.#deadline === 0 ? Infinity : Math.max(0, this.#deadline - performance.now());
  }

  get signal(): AbortSignal {
    if (this.#controller === null) {
      this.#controller = new AbortController();
      if (this.#gone !== 0) this.#controller.abort(goneError(this.#gone));
    }
    return this.#controller.signal;
  }

  get aborted(): boolean {
    return this.#gone !== 0;
  }

  /** The server wants no answer any more. */
  abort(reason: number): void {
    if (this.#gone !== 0) return;
    this.#gone = reason;
    this.#controller?.abort(goneError(reason));
    this.failBody(goneError(reason));
    this.wake?.();
  }

  /** The server takes so many more bytes of the response. */
  grow(bytes: number): void {
    this.window += bytes;
    this.wake?.();
  }

  /** A piece of the request's body has arrived. */
  receive(part: Uint8Array, last: boolean): void {
    const incoming = (this.#incoming ??= newIncoming());
    if (part.length > 0) incoming.parts.push(part);
    incoming.ended ||= last;
    incoming.wake?.();
  }

  /** No more of the request's body will come. */
  failBody(error: Error): void {
    const incoming = (this.#incoming ??= newIncoming());
    incoming.failure ??= error;
    incoming.wake?.();
  }

  /** The last frame of the answer was written, or waits for a commit: whoever still reads the request's body gets an error. */
  end(): void {
    this.#answered = true;
    this.#incoming?.wake?.();
  }

  async read(): Promise<Uint8Array | null> {
    const incoming = (this.#incoming ??= newIncoming());
    for (;;) {
      const part = incoming.parts.shift();
      if (part !== undefined) {
        incoming.used += part.length;
        if (incoming.used * 2 >= READ_WINDOW_BYTES && !incoming.ended && !this.#answered) {
          this.#owner.grant(this, incoming.used);
          incoming.used = 0;
        }
        return part;
      }
      if (incoming.ended) return null;
      if (incoming.failure !== null) throw incoming.failure;
      if (this.#answered) throw new Error('the request was answered before all of its body was read');
      if (!incoming.granted) {
        incoming.granted = true;
        this.#owner.grant(this, READ_WINDOW_BYTES);
      }
      await new Promise<void>((resolve) => (incoming.wake = resolve));
      incoming.wake = null;
    }
  }

  /** Grants no more: what is on its way is dropped when the job ends. */
  cancel(): void {
    this.failBody(new Error('the body is no longer read'));
  }
}

/** The part of a request's body that did not come with the REQUEST frame. */
interface Incoming {
  readonly parts: Uint8Array[];
  granted: boolean;
  /** Bytes taken by the handler since the last grant. */
  used: number;
  ended: boolean;
  failure: Error | null;
  wake: (() => void) | null;
}

function newIncoming(): Incoming {
  return { parts: [], granted: false, used: 0, ended: false, failure: null, wake: null };
}
