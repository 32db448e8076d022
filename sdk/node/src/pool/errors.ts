/** Errors that promises of a pool reject with. Each has a `code`, and its message names the limit. */
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

/** Base class of all errors of a pool. */
export abstract class PoolError extends Error {
  abstract readonly code: PoolErrorCode;
}

/** The queue is full; the message was not accepted. */
export class QueueFullError extends PoolError {
  override readonly name = 'QueueFullError';
  readonly code: 'queue_full' | 'queue_bytes_full';

  /** @internal */
  constructor(code: 'queue_full' | 'queue_bytes_full', message: string) {
    super(message);
    this.code = code;
  }
}

/** The limit that was exceeded. */
export type DeadlinePhase = 'queue' | 'run' | 'total';

/** The message waited, or its handler ran, longer than its deadline allows. */
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
  readonly worker: number;
  /** The process id; `null` for a thread, and for a process that could not be started. */
  readonly pid: number | null;
  /** The exit code; `null` if a signal ended the worker. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  /** The last lines of its standard error. */
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
    super(`worker ${end.worker} ended while it ran the message: ${describeEnd(end)}`);
    ({ worker: this.worker, pid: this.pid, exitCode: this.exitCode, signal: this.signal, stderr: this.stderr } = end);
  }
}

/** No worker can be started; the message contains the last reported reason. */
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

/** The message's `signal` was aborted; `cause` is the signal's reason. */
export class AbortedError extends PoolError {
  override readonly name = 'AbortError';
  readonly code = 'aborted';

  /** @internal */
  constructor(reason: unknown) {
    super('the message was aborted', { cause: reason });
  }
}

/**
 * The handler threw, or its response was an error. Message, stack and cause are those of the thrown error; `thrown` has its name and its
 * own members, such as `code`.
 */
export class HandlerError extends PoolError {
  override readonly name = 'HandlerError';
  readonly code = 'handler_error';
  /** The thrown value as plain data. */
  readonly thrown: ThrownError;
  /** The status of the response; 500 if the handler threw. */
  readonly status: number;

  /** @internal */
  constructor(thrown: ThrownError, status: number) {
    super(thrown.message, 'cause' in thrown.members ? { cause: thrown.members['cause'] } : undefined);
    this.thrown = thrown;
    this.status = status;
    if (thrown.stack !== null) this.stack = thrown.stack;
  }
}

/** The message cannot be serialized, for example because it contains a function. It was not accepted. */
export class NotSendableError extends PoolError {
  override readonly name = 'NotSendableError';
  readonly code = 'not_sendable';

  /** @internal */
  constructor(reason: string, cause?: unknown) {
    super(`the message cannot be sent: ${reason}`, cause === undefined ? undefined : { cause });
  }
}

/** The pool has no handler for messages of this type. The message was not accepted. */
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

/** How a worker ended, as text, with the last line of its standard error. */
export function describeEnd({ exitCode, signal, stderr }: WorkerEnd): string {
  const how = signal === null ? `exit code ${exitCode ?? 'unknown'}` : `signal ${signal}`;
  const lastLine = stderr.at(-1);
  return lastLine === undefined ? how : `${how}, ${lastLine}`;
}
