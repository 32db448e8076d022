/**
 * Commits to the store that the handlers of one turn share, and the responses that wait for them.
 *
 * No other process can write until the shared commit, so it happens when the turn ends, or before a handler starts that is not part of
 * it.
 */
import { HttpError, errorReply } from '../reply.js';
import { setDeferrer } from '../store/deferred-commits.js';
import type { NativeStore } from '../store/native.js';
import { FAULT } from '../wire.js';
import type { Job } from './job.js';
import { report } from './report.js';

/** Milliseconds after which no further handler may join, because other writers are waiting. */
const DEFERRED_MAX_MS = 1;
/** Maximum number of request shapes remembered as sharing their commits. */
const SHAPES_MAX = 256;
/** Longest response that waits in memory for a commit: headers in bytes, body in bytes or UTF-16 units of text. */
const UNSENT_MAX = 8_192;

export const LOST_DETAIL = 'what the request has written could not be committed';

/** A complete response. */
export interface CompleteResponse {
  readonly job: Job;
  readonly status: number;
  readonly kind: number;
  readonly headers: readonly string[];
  readonly body: string | Uint8Array;
  readonly flags: number;
  /** The handler's run time. */
  readonly micros: number;
}

/** The interface of the worker for shared commits. */
export interface CommitsOwner {
  /** Sends a response whose commit has finished; it fits into one frame. */
  send(answer: CompleteResponse): void;
  /** All waiting responses have been sent. */
  settled(): void;
  /** Jobs that did not finish synchronously; if a commit fails, their writes are lost too. */
  openJobs(): Iterable<Job>;
}

export class SharedCommits {
  readonly #owner: CommitsOwner;
  /** The store with uncommitted writes of handlers, since when it has them, and the responses that wait for the commit. */
  #deferred: NativeStore | null = null;
  #deferredSince = 0;
  #unsent: CompleteResponse[] = [];
  /** Whether the current job has deferred a commit; and the shapes of requests whose jobs have. */
  #hasDeferred = false;
  readonly #sharing = new Set<string>();

  constructor(owner: CommitsOwner) {
    this.#owner = owner;
    setDeferrer((native) => this.#defer(native));
  }

  get areDeferred(): boolean {
    return this.#deferred !== null;
  }

  /** Defers the commit of a store to the end of this turn, so that other handlers of the turn can join. */
  #defer(native: NativeStore): void {
    this.#hasDeferred = true;
    if (this.#deferred === native) return;
    this.settle();
    this.#deferred = native;
    this.#deferredSince = performance.now();
    process.nextTick(() => this.settle());
  }

  /** Whether a job may start before the commit: requests of the same shape shared commits before, and the wait is still short. */
  joins(job: Job, now: number): boolean {
    return now - this.#deferredSince <= DEFERRED_MAX_MS && this.#sharing.has(shape(job));
  }

  /** Whether a response of this length may wait for a commit, if there is one. */
  takes(length: number): boolean {
    return this.#deferred === null || length <= UNSENT_MAX;
  }

  /** Keeps a response until the commit. */
  keep(answer: CompleteResponse): void {
    this.#unsent.push(answer);
  }

  /**
   * Commits the deferred writes and sends the responses that wait for that. If the commit fails, returns `false`, and these responses and
   * those of all open jobs become errors.
   */
  settle(): boolean {
    const native = this.#deferred;
    if (native === null) return true;
    this.#deferred = null;
    const unsent = this.#unsent;
    this.#unsent = [];
    let isLost = false;
    try {
      native.settle();
    } catch (error) {
      isLost = true;
      report('what requests have written could not be committed', error);
      for (const job of this.#owner.openJobs()) job.isLost = true;
    }
    for (const answer of unsent) this.#owner.send(isLost ? lostResponse(answer) : answer);
    this.#owner.settled();
    return !isLost;
  }

  /** Call when a job ends: remembers the shape of its request if it deferred a commit. */
  learn(job: Job): void {
    if (!this.#hasDeferred) return;
    this.#hasDeferred = false;
    if (this.#sharing.size >= SHAPES_MAX) this.#sharing.clear();
    this.#sharing.add(shape(job));
  }
}

/**
 * The shape of a request: method and path, with segments that contain digits replaced, so that requests to one handler have the same shape.
 */
function shape({ request }: Job): string {
  return request.methodAndPath.replace(/[^/]*\d[^/]*/g, '#');
}

/** The response to a job whose writes are lost. */
export function lostResponse({ job, micros }: CompleteResponse): CompleteResponse {
  const { status, kind, headers, body } = errorReply(new HttpError(500, LOST_DETAIL), job.request.id);
  return { job, status, kind, headers, body: body as string, flags: FAULT, micros };
}
