/** The worker process that runs the handler. */
export interface WorkerInfo {
  /** The worker's number, from 1; numbers are never reused within a pool. 0 outside of a worker: in tests and in scripts. */
  readonly id: number;
  /** The pool's name in `forebay.toml`. */
  readonly pool: string;
  readonly pid: number;
  /** The `data` option of the `Pool` that started the worker; absent in workers of the server. */
  readonly data?: unknown;
}

/** Writes to the server's log, with the pool, the worker and, during a request, the request's id. Never blocks. */
export interface Log {
  debug(message: string, fields?: Readonly<Record<string, unknown>>): void;
  info(message: string, fields?: Readonly<Record<string, unknown>>): void;
  warn(message: string, fields?: Readonly<Record<string, unknown>>): void;
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

/** Passed to the hooks `onStart` and `onStop`, and part of every request's {@link Context}. */
export interface WorkerContext {
  /**
   * Your own state: empty at the start, shared by all requests of this worker process and not with other processes. Give it a
   * type by declaration merging:
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

/** The second argument of a handler. */
export interface Context extends WorkerContext {
  /** Aborted when the client has disconnected or the deadline has passed: stop any work still running for this request. */
  readonly signal: AbortSignal;
  /** When the client is sent 504 instead of a response, or null. Fixed when the request arrives: time in the queue counts. */
  readonly deadline: Date | null;
  /** Milliseconds until the deadline, 0 once it has passed, `Infinity` without one. */
  remaining(): number;
}
