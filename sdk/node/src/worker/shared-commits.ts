/**
 * What handlers of one turn commit to the store together, and the answers that wait for it.
 *
 * While something is held nobody else can write, so it is settled when the turn ends, or before a handler begins that has nothing to
 * do with it.
 */
import { HttpError, errorReply } from '../reply.js';
import { setHolder } from '../store/held.js';
import type { NativeStore } from '../store/native.js';
import { FAULT } from '../wire.js';
import type { Job } from './job.js';
import { report } from './report.js';

/** Nobody else can write while something is held: no further handler begins after so many milliseconds of that. */
const HELD_MAX_MS = 1;
/** Shapes of requests that are remembered as sharing their commits. */
const SHAPES_MAX = 256;
/** Longest answer that waits in memory for what is held: its headers in bytes, its body in bytes or UTF-16 units of text. */
const UNSENT_MAX = 8_192;

export const LOST = 'what the request has written could not be committed';

/** A whole answer. */
export interface Whole {
  readonly job: Job;
  readonly status: number;
  readonly kind: number;
  readonly headers: readonly string[];
  readonly body: string | Uint8Array;
  readonly flags: number;
  /** How long the handler took. */
  readonly micros: number;
}

/** What it needs of the worker around it. */
export interface CommitsOwner {
  /** Writes an answer whose commit is settled; it is short enough for one frame. */
  send(answer: Whole): void;
  /** All answers that have waited were sent. */
  settled(): void;
  /** Jobs that outlast their frame: what they have written is lost with the rest. */
  openJobs(): Iterable<Job>;
}

export class SharedCommits {
  readonly #owner: CommitsOwner;
  /** The store that holds what handlers have written, since when, and the answers that wait for its commit. */
  #held: NativeStore | null = null;
  #heldSince = 0;
  #unsent: Whole[] = [];
  /** Whether the job that is over next has had something held; and the shapes of requests that have. */
  #asked = false;
  readonly #sharing = new Set<string>();

  constructor(owner: CommitsOwner) {
    this.#owner = owner;
    setHolder((native) => this.#hold(native));
  }

  get areHeld(): boolean {
    return this.#held !== null;
  }

  /** What a handler has written is committed when this turn ends: other handlers of the same turn join it. */
  #hold(native: NativeStore): void {
    this.#asked = true;
    if (this.#held === native) return;
    this.settle();
    this.#held = native;
    this.#heldSince = performance.now();
    process.nextTick(() => this.settle());
  }

  /** Whether a job may begin while something is held: requests like it have held something themselves, and it was not long ago. */
  joins(job: Job, now: number): boolean {
    return now - this.#heldSince <= HELD_MAX_MS && this.#sharing.has(shape(job));
  }

  /** Whether an answer of this length may wait, if anything is held. */
  takes(length: number): boolean {
    return this.#held === null || length <= UNSENT_MAX;
  }

  /** Keeps an answer until what is held is committed. */
  keep(answer: Whole): void {
    this.#unsent.push(answer);
  }

  /**
   * Commits what is held, and sends the answers that wait for that. `false` when it is lost: they and those of all open jobs are errors
   * then.
   */
  settle(): boolean {
    const native = this.#held;
    if (native === null) return true;
    this.#held = null;
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
    for (const answer of unsent) this.#owner.send(isLost ? lost(answer) : answer);
    this.#owner.settled();
    return !isLost;
  }

  /** A job is over: remembers whether requests like it share their commits. */
  learn(job: Job): void {
    if (!this.#asked) return;
    this.#asked = false;
    if (this.#sharing.size >= SHAPES_MAX) this.#sharing.clear();
    this.#sharing.add(shape(job));
  }
}

/** Method and path of a request, with what has digits left open: what requests have in common that one handler answers. */
function shape({ request }: Job): string {
  return request.methodAndPath.replace(/[^/]*\d[^/]*/g, '#');
}

/** The answer to a job whose writes are lost. */
export function lost({ job, micros }: Whole): Whole {
  const { status, kind, headers, body } = errorReply(new HttpError(500, LOST), job.request.id);
  return { job, status, kind, headers, body: body as string, flags: FAULT, micros };
}
