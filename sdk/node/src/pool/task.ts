/** One message of a pool, from its acceptance until its promise is settled. */
import type { Handed } from '../handed.js';
import type { Encoded } from '../message.js';
import type { Bytes } from '../wire.js';
import type { Member } from './member.js';
import type { Incoming } from './incoming.js';
import type { MessageType } from './types.js';

export const QUEUED = 0;
/** Laid aside: its type runs as often as it may, its worker is busy, or it waits to be run again. */
export const HELD = 1;
export const SENT = 2;
export const SETTLED = 3;
export type TaskState = typeof QUEUED | typeof HELD | typeof SENT | typeof SETTLED;

/** What the caller asks of one message beyond its type. */
export interface Wishes {
  readonly priority: number;
  readonly affinity: string | undefined;
  readonly deadlines: { readonly queue: number; readonly run: number; readonly total: number };
  readonly attempts: number;
  readonly onPart: ((part: unknown, task: Task) => unknown) | undefined;
  /** Told whenever the message is given to a worker, which may be taken back before it begins. */
  readonly onSent?: ((task: Task) => void) | undefined;
  /** What has to be waited for before more parts may come; `null` for nothing. */
  readonly mayGoOn: (() => Promise<void> | null) | undefined;
  readonly signal: AbortSignal | undefined;
}

/** What a message is expected to take, in milliseconds; what is handed over lies in no inbox, as it cannot be taken back. */
export function expectedOf({ handed, type }: Task): number {
  return handed === null ? type.expectedMs : 0;
}

export class Task {
  readonly type: MessageType;
  readonly body: Encoded;
  readonly wishes: Wishes;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  /** On the clock of `performance.now()`. */
  readonly submitted: number;
  state: TaskState = QUEUED;
  /** How often it was sent to a worker that began it. */
  attempt = 1;
  /** Since when it waits: its submission, or its last failure. */
  waitsSince: number;
  member: Member | null = null;
  /** The number of the worker that had it last; 0 before any had. */
  worker = 0;
  /** The worker that alone can answer it. */
  only: Member | null = null;
  slot = 0;
  number = 0;
  sent = 0;
  /** When it was first seen to run. */
  began = 0;
  /** What it is expected to take, as counted in its member's load. */
  expectedMs = 0;
  /** An answer that has not come whole. */
  incoming: Incoming | null = null;
  /** What is given to a thread in the place of the body. */
  handed: Handed | null = null;
  /** The body of a long message, as bytes; and how many of them were sent. */
  bytes: Bytes | null = null;
  bodySent = 0;
  /** Neighbours in the list of those that wait as long as it may. */
  before: Task | null = null;
  after: Task | null = null;

  constructor(
    type: MessageType,
    body: Encoded,
    wishes: Wishes,
    submitted: number,
    resolve: (value: unknown) => void,
    reject: (error: unknown) => void,
  ) {
    this.type = type;
    this.body = body;
    this.wishes = wishes;
    this.submitted = submitted;
    this.waitsSince = submitted;
    this.resolve = resolve;
    this.reject = reject;
  }
}
