/** One message of a pool, from acceptance until its promise is settled. */
import type { Transfer } from '../transfer.js';
import type { Encoded } from '../message.js';
import type { Bytes } from '../wire.js';
import type { PoolWorker } from './worker.js';
import type { Incoming } from './incoming.js';
import type { MessageType } from './types.js';

export const QUEUED = 0;
/** Held back: its type runs at its limit, its worker is busy, or it waits for a retry. */
export const HELD = 1;
export const SENT = 2;
export const SETTLED = 3;
export type TaskState = typeof QUEUED | typeof HELD | typeof SENT | typeof SETTLED;

/** Options of one message apart from its type. */
export interface TaskOptions {
  readonly priority: number;
  readonly affinity: string | undefined;
  readonly deadlines: { readonly queue: number; readonly run: number; readonly total: number };
  readonly attempts: number;
  readonly onPart: ((part: unknown, task: Task) => unknown) | undefined;
  /** Called whenever the message is sent to a worker, from which it may be taken back until its handler begins. */
  readonly onSent?: ((task: Task) => void) | undefined;
  /** Returns the promise to await before more parts are read; `null` if none. */
  readonly whenReadyForMore: (() => Promise<void> | null) | undefined;
  readonly signal: AbortSignal | undefined;
}

/** Expected duration in milliseconds. 0 for transferred values, which cannot be taken back and so must not wait in an inbox. */
export function expectedOf({ transfer, type }: Task): number {
  return transfer === null ? type.expectedMs : 0;
}

export class Task {
  readonly type: MessageType;
  readonly body: Encoded;
  readonly options: TaskOptions;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** Timestamp of `performance.now()`. */
  readonly submitted: number;
  state: TaskState = QUEUED;
  /** The number of the current run, from 1. */
  attempt = 1;
  /** Start of the current wait: the submission, or the last failure. */
  waitsSince: number;
  assignee: PoolWorker | null = null;
  /** The number of the last worker that had it; 0 if none had. */
  worker = 0;
  /** The only worker that may run it; `null` for any. */
  only: PoolWorker | null = null;
  slot = 0;
  number = 0;
  sent = 0;
  /** When it was first seen running. */
  began = 0;
  /** The expected duration, as added to its worker's load. */
  expectedMs = 0;
  /** A response of which more pieces are expected. */
  incoming: Incoming | null = null;
  /** The value that a thread gets instead of the body. */
  transfer: Transfer | null = null;
  /** The body of a long message as bytes, and how many of them have been sent. */
  bytes: Bytes | null = null;
  bodySent = 0;
  /** Links of the list of tasks with the same time limit. */
  before: Task | null = null;
  after: Task | null = null;

  constructor(
    type: MessageType,
    body: Encoded,
    options: TaskOptions,
    submitted: number,
    resolve: (value: unknown) => void,
    reject: (error: unknown) => void,
  ) {
    this.type = type;
    this.body = body;
    this.options = options;
    this.submitted = submitted;
    this.waitsSince = submitted;
    this.resolve = resolve;
    this.reject = reject;
  }
}
