/** Calls from a worker to the server (protocol/PROTOCOL.md, section 9), on which `forebay/sql` is built in pools. */
import { AsyncLocalStorage } from 'node:async_hooks';
import { CALL_NUMBER_BYTES, END, callFrames, readU32, type Bytes } from '../wire.js';
import { CallSocket } from './call-socket.js';
import type { Init } from './engine.js';

/** The job that makes a call; both are 0 outside of jobs. */
interface JobId {
  readonly number: number;
  readonly slot: number;
}

const NO_JOB: JobId = { number: 0, slot: 0 };

/** A call without a complete answer. */
interface PendingCall {
  readonly resolve: (outcome: unknown) => void;
  /** The parts of the answer received so far. */
  parts: Bytes[] | null;
}

/** The call interface of this worker, or the reason why it has none. */
let callsOrReason: Calls | string =
  'databases are reached by handlers that a Forebay server runs: in scripts (`[script.NAME]`) and in pools (`[pool.NAME]`). This is neither';

/** Opens the call interface if the server supports it. */
export function openCalls(init: Init, generation: number, write: (bytes: Uint8Array) => void): Calls | null {
  if (init.library === true) {
    callsOrReason = 'a pool of `forebay/pool` has no server, and so no databases: its workers use a client of their own';
    return null;
  }
  const names = process.env['FOREBAY_SQL'];
  if (names === undefined) {
    callsOrReason = `pool \`${init.pool}\` reaches no database: its \`sql\` names none`;
    return null;
  }
  const descriptor = process.env['FOREBAY_CALL_FD'];
  const socket = descriptor === undefined ? null : new CallSocket(Number(descriptor), generation);
  callsOrReason = new Calls(init.pool, names.split(','), generation, write, socket);
  return callsOrReason;
}

/** The call interface of this worker. @throws TypeError if it has none. */
export function calls(): Calls {
  if (typeof callsOrReason === 'string') throw new TypeError(callsOrReason);
  return callsOrReason;
}

/** Whether this is the error of a call whose request has ended. Its promise was not awaited, so that need not end the worker. */
export function isEndedCall(error: unknown): boolean {
  return error instanceof Error && (error as { code?: unknown }).code === 'over';
}

export class Calls {
  readonly #pool: string;
  readonly #databases: readonly string[];
  readonly #generation: number;
  readonly #write: (bytes: Uint8Array) => void;
  readonly #socket: CallSocket | null;
  readonly #jobs = new AsyncLocalStorage<JobId>();
  readonly #open = new Map<number, PendingCall>();
  /** Frames written in this turn, sent together. */
  #outgoing: Uint8Array[] = [];
  #last = 0;

  constructor(pool: string, databases: readonly string[], generation: number, write: (bytes: Uint8Array) => void, socket: CallSocket | null) {
    this.#pool = pool;
    this.#databases = databases;
    this.#generation = generation;
    this.#write = write;
    this.#socket = socket;
  }

  /** Runs a function so that its calls, and those of everything it starts, belong to a job. */
  within<A extends unknown[], R>(job: JobId, work: (...args: A) => R, ...args: A): R {
    return this.#jobs.run(job, work, ...args);
  }

  /** Why the pool may not access this database; `null` if it may. */
  refusal(database: string): string | null {
    if (this.#databases.includes(database)) return null;
    return `pool \`${this.#pool}\` may not reach database \`${database}\`: its \`sql\` names ${this.#databases.join(', ')}`;
  }

  /** Makes a call; resolves to its outcome as received. */
  call(operation: unknown): Promise<unknown> {
    return new Promise((resolve) => {
      const number = this.#next();
      this.#open.set(number, { resolve, parts: null });
      if (this.#outgoing.length === 0) queueMicrotask(() => this.#flush());
      this.#outgoing.push(this.#frames(number, operation));
    });
  }

  /** Like `call`, but blocks the thread until the outcome arrives. */
  callSync(operation: unknown): unknown {
    if (this.#socket === null) throw new TypeError('a worker on standard input and output cannot block on a database call: use the methods that return promises');
    // Earlier calls should not wait until this thread continues.
    this.#flush();
    const number = this.#next();
    return JSON.parse(this.#socket.exchange(this.#frames(number, operation), number));
  }

  /** Handles a RETURN frame, whose payload is `bytes` from `at` to `end`. */
  handleReturn(flags: number, bytes: Bytes, at: number, end: number): void {
    const number = readU32(bytes, at);
    const call = this.#open.get(number);
    if (call === undefined) return;
    const from = at + CALL_NUMBER_BYTES;
    if ((flags & END) === 0) {
      (call.parts ??= []).push(bytes.subarray(from, end) as Bytes);
      return;
    }
    this.#open.delete(number);
    const text = call.parts === null ? bytes.utf8Slice(from, end) : Buffer.concat([...call.parts, bytes.subarray(from, end)]).toString();
    call.resolve(JSON.parse(text));
  }

  /** A number that no open call uses. */
  #next(): number {
    do this.#last = (this.#last + 1) >>> 0;
    while (this.#open.has(this.#last));
    return this.#last;
  }

  #frames(number: number, operation: unknown): Bytes {
    const job = this.#jobs.getStore() ?? NO_JOB;
    return callFrames(this.#generation, job.number, job.slot, number, JSON.stringify(operation));
  }

  #flush(): void {
    const frames = this.#outgoing;
    if (frames.length === 0) return;
    this.#outgoing = [];
    this.#write(frames.length === 1 ? frames[0]! : Buffer.concat(frames));
  }
}
