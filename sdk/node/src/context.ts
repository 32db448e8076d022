/** Which worker process this is. */
export interface WorkerInfo {
  /** The worker's number: from 1, and no other worker of the pool is given it again. 0 where there is no worker: in tests and in scripts. */
  readonly id: number;
  /** The pool's name in `forebay.toml`. */
  readonly pool: string;
  /** The process id. */
  readonly pid: number;
  /** What `data` of a `Pool` gives each of its workers; there is none in the server. */
  readonly data?: unknown;
}

/** Writes to the server's log, with the pool, the worker and (in a request) the request's id. Never waits. */
export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** What the hooks `onStart` and `onStop` are given, and what every request's {@link Context} includes. */
export interface WorkerContext {
  /**
   * Yours, empty at the start, shared by all requests of this worker process and by nobody else. Type it once by
   * declaration merging:
   *
   * ```ts
   * declare module 'forebay' { interface WorkerState { users: Map<string, User> } }
   * ```
   */
  readonly state: WorkerState;
  readonly worker: WorkerInfo;
  readonly log: Log;
}

/** The type of `ctx.state`; add members by declaration merging. */
export interface WorkerState {
  [name: string]: any;
}

/** What a handler is given beside the request. */
export interface Context extends WorkerContext {
  /** Aborted when the client has gone or the deadline has passed: stop what still runs for this request. */
  readonly signal: AbortSignal;
  /** When the client gets 504 instead of this answer, or null. It was fixed on arrival: waiting in the queue counts. */
  readonly deadline: Date | null;
  /** Milliseconds until the deadline, 0 once it has passed, `Infinity` without one. */
  remaining(): number;
}
