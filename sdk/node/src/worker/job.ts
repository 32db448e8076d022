/** One claimed request while its handler runs: the handler's context, and flow control for both bodies. */
import type { Context, Log, WorkerContext, WorkerInfo, WorkerState } from '../context.js';
import { abortError } from '../abort-reason.js';
import { WireRequest, type BodySource } from '../request.js';
import { remainingMs, type Source } from '../source.js';
import { DETACHED_SLOT } from '../wire.js';
import type { Socket } from './socket.js';

/** Size of the receive window for request bodies; it is replenished once half of it has been read. */
const READ_WINDOW_BYTES = 262_144;

/** The reason of ABORT when the pool is replaced or stops. */
const SERVER_ENDS = 3;

/** The interface of the worker for its jobs. */
export interface JobOwner {
  readonly context: WorkerContext;
  /** A logger that adds the job to its lines. */
  logOf(job: Job): Log;
  /** Allows the server to send `bytes` more of the job's body. */
  grant(job: Job, bytes: number): void;
}

export class Job implements Context, BodySource {
  readonly number: number;
  /** Its slot, once detached {@link DETACHED_SLOT}; in message dialects, which have no slots, its number. */
  slot: number;
  /** Whether it has left its slot: it may last, and does not count as running. */
  isDetached = false;
  readonly request: WireRequest;
  /** When the handler was started, as of `performance.now()`. */
  readonly started: number;
  /** Bytes of BODY payload the worker may still send. */
  window: number;
  /** Whether writes of the job may be lost because a commit failed. */
  isLost = false;
  /** Called when the window grows, the job is aborted or its stream is to end; set while a streamed response waits. */
  wake: (() => void) | null = null;
  /** Called when the job is aborted; cheaper than `signal`. */
  onAbort: ((error: Error) => void) | null = null;
  /** Whether its stream is to end now, because the worker ends. */
  isEnding = false;
  /** The client's port, 0 if that is not known, and behind its 16 bits a 1 if the client speaks TLS. */
  readonly connection: number;
  /** The fields behind the request body, `[name, value, ...]`; set before its end has been read. */
  trailers: readonly string[] | null = null;
  /** Its WebSocket, once it is one. */
  socket: Socket | null = null;
  readonly #owner: JobOwner;
  /** As of `performance.now()`; 0 without a deadline. */
  readonly #deadline: number;
  #controller: AbortController | null = null;
  #abortReason = 0;
  #incoming: Incoming | null = null;
  #isAnswered = false;

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
    this.connection = source.connection;
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
      if (this.#abortReason !== 0) this.#controller.abort(abortError(this.#abortReason));
    }
    return this.#controller.signal;
  }

  /** Leaves its slot. */
  detach(): void {
    this.isDetached = true;
    this.slot = DETACHED_SLOT;
  }

  get aborted(): boolean {
    return this.#abortReason !== 0;
  }

  /** Whether the server has ended it because the pool is replaced or stops. */
  get isStopped(): boolean {
    return this.#abortReason === SERVER_ENDS;
  }

  /** The server no longer wants the response. */
  abort(reason: number): void {
    if (this.#abortReason !== 0) return;
    this.#abortReason = reason;
    this.#controller?.abort(abortError(reason));
    this.failBody(abortError(reason));
    this.onAbort?.(abortError(reason));
    this.wake?.();
  }

  /** The server accepts `bytes` more of the response. */
  grow(bytes: number): void {
    this.window += bytes;
    this.wake?.();
  }

  /** Adds a received piece of the request body. */
  receive(part: Uint8Array, last: boolean): void {
    const incoming = (this.#incoming ??= newIncoming());
    if (part.length > 0) incoming.parts.push(part);
    incoming.ended ||= last;
    incoming.wake?.();
  }

  /** Ends the request body with an error. */
  failBody(error: Error): void {
    const incoming = (this.#incoming ??= newIncoming());
    incoming.failure ??= error;
    incoming.wake?.();
  }

  /** Call when the last frame of the response is written or waits for a commit. Reading the request body fails from now on. */
  end(): void {
    this.#isAnswered = true;
    this.#incoming?.wake?.();
  }

  async read(): Promise<Uint8Array | null> {
    const incoming = (this.#incoming ??= newIncoming());
    for (;;) {
      const part = incoming.parts.shift();
      if (part !== undefined) {
        incoming.used += part.length;
        if (incoming.used * 2 >= READ_WINDOW_BYTES && !incoming.ended && !this.#isAnswered) {
          this.#owner.grant(this, incoming.used);
          incoming.used = 0;
        }
        return part;
      }
      if (incoming.ended) return null;
      if (incoming.failure !== null) throw incoming.failure;
      if (this.#isAnswered) throw new Error('the request was answered before all of its body was read');
      if (!incoming.granted) {
        incoming.granted = true;
        this.#owner.grant(this, READ_WINDOW_BYTES);
      }
      await new Promise<void>((resolve) => (incoming.wake = resolve));
      incoming.wake = null;
    }
  }

  /** Stops granting: data still in transit is dropped when the job ends. */
  cancel(): void {
    this.failBody(new Error('the body is no longer read'));
  }
}

/** The part of a request body that did not arrive with the REQUEST frame. */
interface Incoming {
  readonly parts: Uint8Array[];
  granted: boolean;
  /** Bytes read by the handler since the last grant. */
  used: number;
  ended: boolean;
  failure: Error | null;
  wake: (() => void) | null;
}

function newIncoming(): Incoming {
  return { parts: [], granted: false, used: 0, ended: false, failure: null, wake: null };
}
