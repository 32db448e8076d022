/**
 * A durable queue: messages are jobs in a store until they are over, as those of the server's durable routes, and a pool runs them.
 *
 * The addon makes all changes to them (`crates/jobs`), for each turn of the event loop in one transaction, and decides which jobs begin.
 * **Invariants:** a job is stored as running before the pool gets it, and its end is stored before anybody is told. So if the program ends
 * at any time, no message is lost, and none that is over runs again.
 *
 * @module
 */
import { randomBytes } from 'node:crypto';
import { EventEmitter } from 'node:events';
import { decode, encode, type Encoded } from '../message.js';
import { StoreError, type StoreErrorCode } from '../store/error.js';
import { open, type Store } from '../store/index.js';
import type { Bytes } from '../wire.js';
import { ClosedError, DeadlineError, HandlerError, NotSendableError, QueueFullError, type PoolError } from './errors.js';
import { DURATION_MAX, type Deadlines } from './options.js';
import type { Messages, Pool, RunOptions } from './pool.js';

/** Options of a {@link DurableQueue}. */
export interface DurableOptions {
  /** An open store, or the path of its folder, or the URL of its database. */
  store: Store | string;
  /** The queue's name in the store, without `/`; `queue` by default. Only one program at a time can have the queue open. */
  name?: string;
  /** Maximum number of messages that are not over; 1,000,000 by default. */
  max?: number;
  /** Maximum number of messages that run or wait in the pool at a time; 1,000 by default. */
  inFlight?: number;
  /** How many runs of a message may fail before it becomes a dead letter; 12 by default. */
  attempts?: number;
  /** Milliseconds before the second run, doubled for each further one up to an hour, and a quarter more or less; 10,000 by default. */
  backoff?: number;
  /** Milliseconds for which an answered message is kept, with its reply and its key. By default a message with a key is kept for a day, and others are removed. Dead letters are kept for 30 days at least. */
  kept?: number;
}

/** Options for one message. */
export interface EnqueueOptions<T extends string = string> {
  type?: T;
  /** Messages in the pool with a higher priority run first; 0 by default. */
  priority?: number;
  affinity?: string;
  /** How many runs may fail before it becomes a dead letter; by default as for the queue. */
  attempts?: number;
  deadline?: number | Deadlines;
  /** Milliseconds before it may run, up to a year. */
  delay?: number;
  /**
   * Idempotency key: the same message with the same key is not stored or run again; it stands for the first one. With another type or
   * content it is refused (`key_reused`).
   */
  key?: string;
}

/** A message that has been stored. */
export interface Enqueued<Reply = unknown> {
  /** The id of the job. */
  readonly id: string;
  /**
   * The reply, once it is stored; rejects if the message becomes a dead letter. `null` if the key belongs to a message that was answered
   * with more than is kept. May be left unawaited.
   */
  readonly reply: Promise<Reply> | null;
}

/** A message that failed; kept until it is retried or dropped, or for 30 days. */
export interface DeadMessage {
  readonly id: string;
  readonly type: string | undefined;
  readonly message: unknown;
  readonly error: { readonly code: string; readonly message: string };
  /** When it failed. */
  readonly at: Date;
}

export interface DurableEvents {
  /** A message was answered; it may have been enqueued by an earlier program. */
  answered: [id: string, reply: unknown];
  /** A message has become a dead letter. */
  deadLetter: [id: string, error: PoolError | Error];
  /** The store failed; what was to be written is written with the next attempt. */
  error: [error: Error];
}

/** A request or a reply as it is stored: a text, or a structured clone as base64. */
interface Content {
  readonly head: string;
  readonly text?: string;
  readonly base64?: string;
}

/** An attempt that has begun. */
interface Attempt {
  readonly id: string;
  readonly attempt: number;
  readonly request: Content;
}

/** The end of an attempt, and what is told of it once it is stored. */
interface EndedAttempt {
  readonly id: string;
  readonly attempt: number;
  readonly attempts?: number | undefined;
  readonly done?: Content;
  readonly failed?: { readonly error: string; readonly code: string; readonly isFinal: boolean };
  readonly outcome?: unknown;
}

interface PendingEnqueue {
  readonly message: { readonly id: string; readonly type: string; readonly key: string | undefined; readonly delayMs: number; readonly request: Content };
  readonly resolve: (enqueued: Enqueued<any>) => void;
  readonly reject: (error: unknown) => void;
}

/** A job as `forebay jobs` shows it. */
interface ShownJob {
  readonly id: string;
  readonly state: string;
  readonly error?: string;
  readonly endedMs: number;
  readonly request?: { readonly type?: string; readonly body?: string; readonly base64?: string };
  readonly response?: { readonly code?: string; readonly body?: string; readonly base64?: string };
}

/** What the addon answers to a batch. */
interface BatchAnswer {
  readonly ended: readonly (string | null)[];
  readonly accepted: readonly { readonly id: string; readonly known?: ShownJob; readonly code?: string; readonly error?: string }[];
  readonly begun: readonly Attempt[];
  readonly open: number;
  readonly dueMs: number | null;
}

interface Reply {
  readonly promise: Promise<any>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

const BODY_BYTES_MAX = 33_554_432;
/** Longest reply that is kept. */
const REPLY_BYTES_MAX = 1_048_576;
/** What one batch takes of enqueued messages, and of replies, in characters. */
const BATCH_LENGTH_MAX = 33_554_432;
const KEY_LENGTH_MAX = 256;
/** A year. */
const DELAY_MAX = 31_536_000_000;
/** Delay before messages that the pool did not accept are offered again, in milliseconds. */
const RETRY_MS = 100;
/** The queue is looked at this often, because `forebay jobs` may have changed it. */
const LOOK_MS = 1_000;

/**
 * A queue of messages in a store, run by a pool. `forebay jobs` lists and changes them.
 *
 * ```ts
 * const queue = new DurableQueue(pool, { store: './data' });
 * const { id } = await queue.enqueue({ order: 7 }, { type: 'ship', key: 'order 7' });
 * ```
 */
export class DurableQueue<M extends Messages = Messages> extends EventEmitter<DurableEvents> {
  readonly #pool: Pool<M>;
  readonly #store: Store;
  readonly #options: Required<Omit<DurableOptions, 'store' | 'kept'>> & { kept: number | undefined };
  /** Names this object in the store. */
  readonly #owner = randomBytes(16).toString('hex');
  #lastId = 0;
  #size = 0;
  readonly #replies = new Map<string, Reply>();
  /** Attempts that the pool has. */
  #running = 0;
  /** Attempts that have begun in the store, and for which the pool had no room yet. */
  #waiting: Attempt[] = [];
  #incoming: PendingEnqueue[] = [];
  #ended: EndedAttempt[] = [];
  #isBatchDue = false;
  #timer: NodeJS.Timeout | undefined;
  #isPoolClosed = false;
  #isClosed = false;
  /** Nothing is written any more. */
  #isEnded = false;
  #whenIdle: (() => void) | undefined;

  /** @throws Error if another program has the queue open, and StoreError if the store cannot be opened. */
  constructor(pool: Pool<M>, { store, name = 'queue', max = 1_000_000, inFlight = 1_000, attempts = 12, backoff = 10_000, kept }: DurableOptions) {
    super();
    for (const [option, value] of Object.entries({ max, inFlight, attempts })) checkWhole(option, value, 1, 0xffff_ffff);
    for (const [option, value] of Object.entries({ backoff, kept: kept ?? 0 })) checkWhole(option, value, 0, DELAY_MAX);
    this.#pool = pool;
    this.#store = typeof store === 'string' ? open(store) : store;
    this.#options = { name, max, inFlight, attempts, backoff, kept };
    if (this.#store.node('ForebayQueue', name).exists) {
      throw new Error(`${this.#store.path} has messages of an earlier version of forebay/pool in its global ForebayQueue: finish them with that version, or remove them (forebay store kill 'ForebayQueue/${name}' --yes --data '${this.#store.path}')`);
    }
    const opened = this.#command('open') as { open: number; failed: readonly ShownJob[] } | null;
    if (opened === null) throw new Error(`another program has the queue ${JSON.stringify(name)} of ${this.#store.path}`);
    this.#size = opened.open;
    setImmediate(() => {
      for (const { id, error } of opened.failed) this.emit('deadLetter', id, failure('interrupted', error));
    });
    this.#batchSoon();
  }

  /** Messages that are not over. */
  get size(): number {
    return this.#size;
  }

  /**
   * Stores a message. Resolves once it is committed, with the durability of the store. From then on it is run at least once, by this
   * program or the next one. Messages enqueued in the same turn of the event loop share a commit.
   */
  enqueue<T extends keyof M & string>(message: Parameters<M[T]>[0], options: EnqueueOptions<T> = {}): Promise<Enqueued<Awaited<ReturnType<M[T]>>>> {
    return new Promise((resolve, reject) => {
      const { key, delay = 0, ...head } = options;
      if (this.#isClosed) throw new ClosedError('the queue is closed');
      if (key !== undefined && !isKey(key)) throw new TypeError(`key is a text of 1 to ${KEY_LENGTH_MAX} characters`);
      checkWhole('delay', delay, 0, DELAY_MAX);
      this.#pool.check(head);
      const request = contentOf(message, BODY_BYTES_MAX, JSON.stringify(head, (_, value: unknown) => (value === Infinity ? DURATION_MAX : value)));
      this.#incoming.push({ message: { id: this.#newId(), type: head.type ?? '', key, delayMs: delay, request }, resolve, reject });
      this.#batchSoon();
    });
  }

  /** The latest 10,000 messages that failed, the last one first. */
  *deadLetters(): Generator<DeadMessage, void, void> {
    for (const { id } of this.#command('failed') as ShownJob[]) {
      const job = this.#command('show', id) as ShownJob | null;
      if (job === null) continue;
      const { request, response, error = '', endedMs } = job;
      const code = response?.code ?? 'interrupted';
      yield { id, type: request?.type, message: valueOf(request?.body, request?.base64), error: { code, message: error }, at: new Date(endedMs) };
    }
  }

  /** Has a dead letter run again, with all its attempts before it. @throws RangeError if there is no dead letter with this id. */
  async retryDeadLetter(id: string): Promise<Enqueued> {
    if (this.#isClosed) throw new ClosedError('the queue is closed');
    if (this.#command('retry', id) === null) throw new RangeError(`there is no dead letter ${id}`);
    this.#size++;
    this.#batchSoon();
    return { id, reply: this.#replyOf(id) };
  }

  /** Removes a dead letter; returns whether it existed. */
  dropDeadLetter(id: string): boolean {
    return this.#command('remove', id) !== null;
  }

  /**
   * Stops giving messages to the pool, waits for those that it has, and leaves the rest to the next program. Call it before the pool's
   * `close()`.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    for (const { id, attempt } of this.#waiting.splice(0)) this.#ended.push({ id, attempt });
    this.#batch();
    if (this.#running > 0) await new Promise<void>((resolve) => (this.#whenIdle = resolve));
    while (this.#incoming.length > 0 || this.#ended.length > 0) if (!this.#batch()) break;
    this.#end('the queue was closed; the message is kept for the next program');
  }

  /** Has the addon run a command of `ProgramQueues` of `crates/jobs`. */
  #command(command: string, argument = ''): unknown {
    return JSON.parse(this.#store.native.jobs!(command, this.#options.name, this.#owner, Date.now(), argument));
  }

  /** The time, a number and random digits: ids sort as messages were enqueued. */
  #newId(): string {
    this.#lastId = (this.#lastId + 1) >>> 0;
    return Date.now().toString(16).padStart(12, '0') + this.#lastId.toString(16).padStart(8, '0') + this.#owner.slice(0, 12);
  }

  #replyOf(id: string): Promise<any> {
    const known = this.#replies.get(id);
    if (known !== undefined) return known.promise;
    let resolve!: Reply['resolve'];
    let reject!: Reply['reject'];
    const promise = new Promise<any>((...both) => ([resolve, reject] = both));
    // A caller may ignore the promise; failures are also reported as events.
    promise.catch(() => {});
    this.#replies.set(id, { promise, resolve, reject });
    return promise;
  }

  #batchSoon(): void {
    if (this.#isBatchDue) return;
    this.#isBatchDue = true;
    setImmediate(() => {
      this.#isBatchDue = false;
      this.#batch();
    });
  }

  /** Writes what was enqueued and what has ended, and begins what may begin, in one transaction. Returns whether it is written. */
  #batch(): boolean {
    if (this.#isEnded) return false;
    const incoming = take(this.#incoming, ({ message }) => message.request);
    const ended = take(this.#ended, ({ done }) => done);
    const { name, max, inFlight, attempts, backoff, kept } = this.#options;
    const isTaking = !this.#isClosed && !this.#isPoolClosed && this.#waiting.length === 0 && !this.#pool.needsDrain;
    const room = isTaking ? inFlight - this.#running : 0;
    let answer: BatchAnswer | null;
    try {
      answer = this.#command('batch', JSON.stringify({
        accepted: incoming.map(({ message }) => message),
        ended: ended.map(({ outcome: _, ...each }) => ({ ...each, jitter: Math.random() })),
        room, attempts, openMax: max, backoffMs: backoff, keptMs: kept,
      })) as BatchAnswer | null;
    } catch (error) {
      this.#ended = ended.concat(this.#ended);
      for (const { reject } of incoming) reject(error);
      this.#batchIn(LOOK_MS);
      this.emit('error', error as Error);
      return false;
    }
    if (answer === null) {
      const lost = new ClosedError(`another program has taken over the queue ${JSON.stringify(name)} of ${this.#store.path}`);
      this.#incoming.unshift(...incoming);
      this.#isClosed = true;
      this.#waiting = [];
      this.#end(lost.message);
      this.emit('error', lost);
      return false;
    }
    this.#size = answer.open;
    for (const [index, { message, resolve, reject }] of incoming.entries()) {
      const { id, known, code, error } = answer.accepted[index]!;
      if (code === undefined) resolve({ id, reply: known === undefined ? this.#replyOf(id) : this.#replyOfKnown(known) });
      else if (code === 'queue_full') reject(new QueueFullError(code, `queue ${JSON.stringify(name)} is full (max ${max})`));
      else reject(code === 'key_reused' ? failure(code, `the key ${JSON.stringify(message.key)} belongs to another message: the same key needs the same type and content`) : new StoreError(code as StoreErrorCode, error!));
    }
    for (const [index, { id, outcome }] of ended.entries()) {
      const state = answer.ended[index]!;
      this.#settle(id, state, outcome);
      // Listeners may throw.
      if (state === 'done') queueMicrotask(() => this.emit('answered', id, outcome));
      if (state === 'failed') queueMicrotask(() => this.emit('deadLetter', id, outcome as Error));
    }
    this.#waiting.push(...answer.begun);
    this.#offer();
    if (this.#incoming.length > 0 || this.#ended.length > 0) this.#batchSoon();
    const hasRoom = answer.begun.length < room && this.#waiting.length === 0 && answer.dueMs !== null;
    const wait = hasRoom ? Math.max(1, Math.min(answer.dueMs! - Date.now(), LOOK_MS)) : LOOK_MS;
    this.#batchIn(this.#waiting.length > 0 || this.#pool.needsDrain ? RETRY_MS : wait);
    return true;
  }

  #batchIn(ms: number): void {
    clearTimeout(this.#timer);
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => this.#batch(), ms);
    // Like a pool, the queue keeps its program alive while messages are open, and no longer.
    if (this.#size === 0) this.#timer.unref();
  }

  /** The reply of a message that was stored before. */
  #replyOfKnown({ id, state, error, response }: ShownJob): Promise<any> | null {
    const reply = this.#replyOf(id);
    this.#settle(id, state, state === 'failed' ? failure(response?.code ?? 'interrupted', error) : valueOf(response?.body, response?.base64));
    return state === 'done' && response === undefined ? null : reply;
  }

  /** Settles the reply of a job that is over. */
  #settle(id: string, state: string | null, outcome: unknown): void {
    if (state === 'waiting' || state === 'running' || state === 'retrying') return;
    const reply = this.#replies.get(id);
    this.#replies.delete(id);
    if (state === 'done') reply?.resolve(outcome);
    else reply?.reject(state === 'failed' ? outcome : new ClosedError('the message was removed from the store'));
  }

  /** Gives the pool attempts, oldest first, as long as it has room. */
  #offer(): void {
    const waiting = this.#waiting;
    let next = 0;
    while (next < waiting.length && !this.#pool.needsDrain) void this.#run(waiting[next++]!);
    this.#waiting = waiting.slice(next);
  }

  async #run(begun: Attempt): Promise<void> {
    const { id, attempt, request } = begun;
    this.#running++;
    let attempts: number | undefined;
    try {
      const { attempts: own, ...options } = JSON.parse(request.head) as RunOptions<string>;
      attempts = own;
      const reply: unknown = await this.#pool.run(valueOf(request.text, request.base64) as Parameters<M[string]>[0], { ...options, attempts: 1 });
      this.#ended.push({ id, attempt, attempts, done: replyContent(reply), outcome: reply });
    } catch (error) {
      const { code = 'invalid_message', message } = error as PoolError;
      const hasNoRoom = code === 'start_failed' || code === 'queue_full' || code === 'queue_bytes_full' || (error instanceof DeadlineError && error.phase === 'queue');
      this.#isPoolClosed ||= code === 'closed';
      if (hasNoRoom && !this.#isClosed) {
        this.#waiting.push(begun);
        this.#batchIn(RETRY_MS);
      } else if (hasNoRoom || code === 'closed') this.#ended.push({ id, attempt });
      else this.#ended.push({ id, attempt, attempts, failed: { error: message, code, isFinal: isFinal(error, code) }, outcome: error });
    }
    if (--this.#running === 0) this.#whenIdle?.();
    if (this.#ended.length > 0) this.#batchSoon();
  }

  #end(reason: string): void {
    this.#isEnded = true;
    clearTimeout(this.#timer);
    for (const { reject } of [...this.#replies.values(), ...this.#incoming.splice(0)]) reject(new ClosedError(reason));
    this.#replies.clear();
    this.#command('close');
  }
}

/** Whether another run would fail as well. */
function isFinal(error: unknown, code: string): boolean {
  if (error instanceof HandlerError) return error.status >= 400 && error.status < 500;
  return code !== 'crashed' && code !== 'deadline';
}

/** Takes from the start of a list what goes into a batch, at least one. */
function take<T>(list: T[], contentOf: (each: T) => Content | undefined): T[] {
  let count = 0;
  for (let length = 0; count < list.length && length < BATCH_LENGTH_MAX; count++) {
    const content = contentOf(list[count]!);
    length += (content?.text ?? content?.base64 ?? '').length;
  }
  return list.splice(0, count);
}

function failure(code: string, message: string | undefined): Error {
  return Object.assign(new Error(message), { code });
}

function checkWhole(name: string, value: number, min: number, max: number): void {
  if (!Number.isInteger(value) || value < min || value > max) throw new RangeError(`${name} is a whole number from ${min} to ${max}, not ${String(value)}`);
}

function isKey(key: unknown): boolean {
  return typeof key === 'string' && key !== '' && key.length <= KEY_LENGTH_MAX && key.isWellFormed();
}

/** @throws NotSendableError if the value cannot be encoded, or takes too many bytes. */
function contentOf(value: unknown, bytesMax: number, head: string): Content {
  let body: Encoded;
  try {
    body = encode(value);
  } catch (error) {
    throw new NotSendableError((error as Error).message, error);
  }
  if (body.length > bytesMax) throw new NotSendableError(`it takes ${body.length} bytes (at most ${bytesMax} are kept)`);
  return typeof body === 'string' ? { head, text: body } : { head, base64: Buffer.from(body).toString('base64') };
}

/** A reply as it is kept; one that cannot be kept is not, and has no head. */
function replyContent(reply: unknown): Content {
  try {
    return contentOf(reply, REPLY_BYTES_MAX, '{}');
  } catch {
    return { head: '' };
  }
}

function valueOf(text = '', base64?: string): unknown {
  const bytes = (base64 === undefined ? Buffer.from(text) : Buffer.from(base64, 'base64')) as Bytes;
  return decode(bytes, 0, bytes.length);
}
