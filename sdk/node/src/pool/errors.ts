/** What promises of a pool are rejected with. Each has a `code`, and says which limit it was. */
import type { ThrownError } from '../failure.js';

export type PoolErrorCode =
  | 'queue_full'
  | 'queue_bytes_full'
  | 'deadline'
  | 'crashed'
  | 'aborted'
  | 'handler_error'
  | 'not_sendable'
  | 'unknown_type'
  | 'start_failed'
  | 'closed';

/** All errors of a pool. */
export abstract class PoolError extends Error {
  abstract readonly code: PoolErrorCode;
}

/** The queue has no room: nothing was accepted. */
export class QueueFullError extends PoolError {
  override readonly name = 'QueueFullError';
  readonly code: 'queue_full' | 'queue_bytes_full';

  /** @internal */
  constructor(code: 'queue_full' | 'queue_bytes_full', message: string) {
    super(message);
    this.code = code;
  }
}

/** Which of the limits it was. */
export type DeadlinePhase = 'queue' | 'run' | 'total';

/** The message has waited, or its handler has run, for longer than it may. */
export class DeadlineError extends PoolError {
  override readonly name = 'DeadlineError';
  readonly code = 'deadline';
  readonly phase: DeadlinePhase;
  readonly limitMs: number;

  /** @internal */
  constructor(phase: DeadlinePhase, limitMs: number) {
    const what = { queue: 'waited for a worker', run: 'been run', total: 'been under way' }[phase];
    super(`the message has ${what} for longer than deadlines.${phase} (${limitMs} ms)`);
    this.phase = phase;
    this.limitMs = limitMs;
  }
}

/** How a worker ended. */
export interface WorkerEnd {
  /** The worker's number. */
  readonly worker: number;
  /** The process's; `null` for a thread, and where it never came to be. */
  readonly pid: number | null;
  /** What it exited with; `null` when a signal ended it. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** The last lines that it wrote to standard error. */
  readonly stderr: readonly string[];
}

/** The worker ended while it ran the message. */
export class CrashedError extends PoolError {
  override readonly name = 'CrashedError';
  readonly code = 'crashed';
  readonly worker: number;
  readonly pid: number | null;
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stderr: readonly string[];

  /** @internal */
  constructor(end: WorkerEnd) {
    super(`worker ${end.worker} ended while it ran the message: ${howItEnded(end)}`);
    ({ worker: this.worker, pid: this.pid, exitCode: this.exitCode, signal: this.signal, stderr: this.stderr } = end);
  }
}

/** No worker can start; what a worker last said about it is in the message. */
export class StartFailedError extends PoolError {
  override readonly name = 'StartFailedError';
  readonly code = 'start_failed';
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly stderr: readonly string[];

  /** @internal */
  constructor(reason: string, end: WorkerEnd, cause?: unknown) {
    super(`the pool has no worker: ${reason}`, cause === undefined ? undefined : { cause });
    ({ exitCode: this.exitCode, signal: this.signal, stderr: this.stderr } = end);
  }
}

/** Its `signal` was aborted; the reason is its `cause`. */
export class AbortedError extends PoolError {
  override readonly name = 'AbortError';
  readonly code = 'aborted';

  /** @internal */
  constructor(reason: unknown) {
    super('the message was aborted', { cause: reason });
  }
}

/** The handler threw, or answered with an error. Message, stack and cause are those of what it threw; its name and its own members (`code` and others) are in `thrown`. */
export class HandlerError extends PoolError {
  override readonly name = 'HandlerError';
  readonly code = 'handler_error';
  /** What was thrown, as plain members. */
  readonly thrown: ThrownError;
  /** Of an answer to a request; 500 where the handler threw. */
  readonly status: number;

  /** @internal */
  constructor(thrown: ThrownError, status: number) {
    super(thrown.message, 'cause' in thrown.members ? { cause: thrown.members['cause'] } : undefined);
    this.thrown = thrown;
    this.status = status;
    if (thrown.stack !== null) this.stack = thrown.stack;
  }
}

/** The message cannot be sent, as a function in it cannot; nothing was accepted. */
export class NotSendableError extends PoolError {
  override readonly name = 'NotSendableError';
  readonly code = 'not_sendable';

  /** @internal */
  constructor(reason: string, cause?: unknown) {
    super(`the message cannot be sent: ${reason}`, cause === undefined ? undefined : { cause });
  }
}

/** The pool has no handler for messages of this type; nothing was accepted. */
export class UnknownTypeError extends PoolError {
  override readonly name = 'UnknownTypeError';
  readonly code = 'unknown_type';
  readonly type: string;

  /** @internal */
  constructor(type: string, known: Iterable<string>) {
    super(`no handler for messages of type ${JSON.stringify(type)}; there are ${[...known].map((name) => JSON.stringify(name)).join(', ')}`);
    this.type = type;
  }
}

/** The pool is closing or closed. */
export class ClosedError extends PoolError {
  override readonly name = 'ClosedError';
  readonly code = 'closed';

  /** @internal */
  constructor(what = 'the pool is closed and takes no messages') {
    super(what);
  }
}

/** In words, with the last line of standard error. */
export function howItEnded({ exitCode, signal, stderr }: WorkerEnd): string {
  const how = signal === null ? `exit code ${exitCode ?? 'unknown'}` : `signal ${signal}`;
  const said = stderr.at(-1);
  return said === undefined ? how : `${how}, ${said}`;
}
