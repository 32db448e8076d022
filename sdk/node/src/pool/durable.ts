/**
 * A durable queue: messages are kept in a store until they are answered, and a pool runs them at least once.
 *
 * Below the queue's node are `open` (messages by number, in order of arrival), `dead` (failed messages), `keys` (numbers by
 * idempotency key) and `last`, the last number assigned. **Invariants:** a message is acknowledged once the transaction that stores it is
 * committed, and leaves `open` in the transaction that writes its dead letter or removes it; if the program ends at any time, it stays in
 * `open`.
 *
 * @module
 */
import { EventEmitter } from 'node:events';
import { decode, encode, type Encoded } from '../message.js';
import { open, type Store, type StoreNode } from '../store/index.js';
import type { Bytes } from '../wire.js';
import { ClosedError, NotSendableError, PoolError, QueueFullError } from './errors.js';
import { DURATION_MAX, duration, type Deadlines } from './options.js';
import type { Messages, Pool, RunOptions } from './pool.js';

/** Options of a {@link DurableQueue}. */
export interface DurableOptions {
  /** An open store, or the path of its folder. */
  store: Store | string;
  /** The queue's name in the store; `queue` by default. Only one program at a time can have the queue open. */
  name?: string;
  /** The global that holds the queues; `ForebayQueue` by default. */
  global?: string;
  /** Maximum number of messages kept; 1,000,000 by default. */
  max?: number;
  /** Maximum number of messages given to the pool at a time; 1,000 by default. */
  inFlight?: number;
  /**
   * How many programs may end while they have a message, before it becomes a dead letter (it may be the cause of their end); 10 by default.
   */
  lives?: number;
  /** Milliseconds for which an idempotency key is remembered after its message was answered; a day by default. */
  keyMax?: number;
}

/** Options for one message. */
export interface EnqueueOptions<T extends string = string> {
  type?: T;
  priority?: number;
  affinity?: string;
  attempts?: number;
  deadline?: number | Deadlines;
  /** Idempotency key: a second message with the same key is not stored or run again; it stands for the first one. */
  key?: string;
}

/** A message that has been stored. */
export interface Enqueued<Reply = unknown> {
  readonly id: number;
  /**
   * The reply; rejects if there is none. `null` if the key belongs to a message whose reply this program does not have. May be left
   * unawaited.
   */
  readonly reply: Promise<Reply> | null;
}

/** A message that failed; kept until it is retried or dropped. */
export interface DeadMessage {
  readonly id: number;
  readonly type: string | undefined;
  readonly message: unknown;
  readonly error: { readonly code: string; readonly message: string };
  /** When it failed. */
  readonly at: Date;
}

export interface DurableEvents {
  /** A message was answered; it may have been enqueued by an earlier program. */
  answered: [id: number, reply: unknown];
  /** A message failed its last attempt. */
  deadLetter: [id: number, error: PoolError | Error];
  /** The store refused a write; it is retried with the next one. */
  error: [error: Error];
}

/** A message in the store; the names of its members are part of the stored format. */
interface StoredMessage {
  /** The options for the pool's `run()`, as JSON. */
  readonly wishes: string;
  readonly text?: string;
  /** A structured clone, as base64. */
  readonly clone?: string;
  readonly key?: string;
  /** How many programs have had the message. */
  lives: number;
}

/** A dead letter in the store; the names of its members are part of the stored format. */
interface DeadRecord {
  readonly kept: StoredMessage;
  readonly error: DeadMessage['error'];
  readonly at: number;
}

interface PendingEnqueue {
  readonly stored: StoredMessage;
  readonly resolve: (enqueued: Enqueued<any>) => void;
  readonly reject: (error: unknown) => void;
}

/** A finished message whose end is not written yet. */
interface FinishedMessage {
  readonly id: number;
  readonly stored: StoredMessage;
  readonly error: { code: string; message: string } | null;
}

interface Reply {
  readonly promise: Promise<any>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

const BODY_BYTES_MAX = 33_554_432;
const KEY_LENGTH_MAX = 256;
/** How many messages are read from the store at a time. */
const PAGE = 100;
/** Delay before messages that the pool did not accept are offered again, in milliseconds. */
const RETRY_MS = 100;

/**
 * A queue of messages in a store, run by a pool.
 *
 * ```ts
 * const queue = new DurableQueue(pool, { store: './data' });
 * const { id } = await queue.enqueue({ order: 7 }, { type: 'ship', key: 'order 7' });
 * ```
 */
export class DurableQueue<M extends Messages = Messages> extends EventEmitter<DurableEvents> {
  readonly #pool: Pool<M>;
  readonly #store: Store;
  readonly #node: StoreNode;
  readonly #options: Required<Omit<DurableOptions, 'store'>>;
  /** Messages that are stored and not answered. */
  #size = 0;
  /** The number of the last message read from the store. */
  #cursor = 0;
  /** The last number assigned by earlier programs. */
  readonly #lastPriorId: number;
  readonly #replies = new Map<number, Reply>();
  readonly #running = new Set<number>();
  /** Messages that were read but not given to the pool yet. */
  #next: [id: number, stored: StoredMessage][] = [];
  #incoming: PendingEnqueue[] = [];
  #finished: FinishedMessage[] = [];
  #isWriteDue = false;
  #isPumpDue = false;
  #retryTimer: NodeJS.Timeout | null = null;
  #isClosed = false;
  #idleWaiters: (() => void)[] = [];

  /** @throws Error if another program has the queue open, and StoreError if the store cannot be opened. */
  constructor(pool: Pool<M>, { store, name = 'queue', global = 'ForebayQueue', max = 1_000_000, inFlight = 1_000, lives = 10, keyMax = 86_400_000 }: DurableOptions) {
    super();
    for (const [option, value] of Object.entries({ max, inFlight, lives })) {
      if (!Number.isInteger(value) || value < 1) throw new RangeError(`${option} is a whole number of at least 1, not ${String(value)}`);
    }
    this.#pool = pool;
    this.#store = typeof store === 'string' ? open(store) : store;
    this.#node = this.#store.node(global, name);
    this.#options = { name, global, max, inFlight, lives, keyMax: duration('keyMax', keyMax) };
    if (!this.#node.lock(0)) throw new Error(`another program has the queue ${JSON.stringify(name)} of ${this.#store.path}`);
    for (const _ of this.#node.at('open').keys()) this.#size++;
    this.#lastPriorId = Number(this.#node.get('last') ?? 0);
    this.#pumpSoon();
  }

  /** Messages that are stored and not answered. */
  get size(): number {
    return this.#size;
  }

  /**
   * Stores a message. Resolves once it is committed, with the durability of the store. From then on it is run at least once, by this
   * program or the next one. Messages enqueued in the same turn of the event loop share a commit.
   */
  enqueue<T extends keyof M & string>(message: Parameters<M[T]>[0], { key, ...options }: EnqueueOptions<T> = {}): Promise<Enqueued<Awaited<ReturnType<M[T]>>>> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed) throw new ClosedError('the queue is closed');
      if (key !== undefined && !isKey(key)) throw new TypeError(`key is a text of 1 to ${KEY_LENGTH_MAX} characters`);
      this.#pool.check(options);
      if (this.#size + this.#incoming.length >= this.#options.max) {
        throw new QueueFullError('queue_full', `queue ${JSON.stringify(this.#options.name)} is full (max ${this.#options.max})`);
      }
      const stored: StoredMessage = { wishes: textOf(options), ...bodyOf(message), ...(key === undefined ? {} : { key }), lives: 1 };
      this.#incoming.push({ stored, resolve, reject });
      this.#writeSoon();
    });
  }

  /** Failed messages, oldest first. */
  *deadLetters(): Generator<DeadMessage, void, void> {
    for (const [id, { kept: stored, error, at }] of this.#node.at('dead').entries<DeadRecord>()) {
      yield { id: Number(id), type: runOptionsOf(stored).type, message: messageOf(stored), error, at: new Date(at) };
    }
  }

  /** Runs a dead letter again, as a new message. @throws RangeError if there is no dead letter with this number. */
  async retryDeadLetter(id: number): Promise<Enqueued> {
    if (this.#isClosed) throw new ClosedError('the queue is closed');
    const dead = this.#node.get<DeadRecord>('dead', id);
    if (dead === undefined) throw new RangeError(`there is no dead letter ${id}`);
    const stored = { ...dead.kept, lives: 1 };
    const newId = this.#store.transaction(() => {
      this.#node.at('dead', id).delete();
      return this.#insert(stored);
    });
    this.#size++;
    this.#pumpSoon();
    return { id: newId, reply: this.#createReply(newId) };
  }

  /** Removes a dead letter; returns whether it existed. */
  dropDeadLetter(id: number): boolean {
    return this.#node.at('dead', id).delete();
  }

  /**
   * Stops giving messages to the pool, waits for those that it has, and leaves the rest to the next program. Call it before the pool's
   * `close()`.
   */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#next = [];
    if (this.#retryTimer !== null) clearTimeout(this.#retryTimer);
    this.#write();
    if (this.#running.size > 0) await new Promise<void>((resolve) => this.#idleWaiters.push(resolve));
    this.#write();
    for (const { reject } of this.#replies.values()) reject(new ClosedError('the queue was closed; the message is kept for the next program'));
    this.#replies.clear();
    this.#node.unlock();
  }

  // Writing to the store.

  #writeSoon(): void {
    if (this.#isWriteDue) return;
    this.#isWriteDue = true;
    setImmediate(() => {
      this.#isWriteDue = false;
      this.#write();
    });
  }

  /** Writes new and finished messages in one transaction. */
  #write(): void {
    const incoming = this.#incoming;
    const finished = this.#finished;
    if (incoming.length === 0 && finished.length === 0) return;
    this.#incoming = [];
    this.#finished = [];
    let ids: [id: number, isNew: boolean][];
    try {
      ids = this.#store.transaction(() => {
        for (const each of finished) this.#remove(each);
        return incoming.map(({ stored }) => {
          const known = stored.key === undefined ? undefined : this.#node.get<number>('keys', stored.key);
          return known === undefined ? [this.#insert(stored), true] : [known, false];
        });
      });
    } catch (error) {
      this.#finished = finished.concat(this.#finished);
      for (const { reject } of incoming) reject(error);
      if (finished.length > 0) this.emit('error', error as Error);
      return;
    }
    this.#size -= finished.length;
    for (const [index, { resolve }] of incoming.entries()) {
      const [id, isNew] = ids[index]!;
      if (isNew) this.#size++;
      resolve({ id, reply: isNew ? this.#createReply(id) : (this.#replies.get(id)?.promise ?? null) });
    }
    this.#pumpSoon();
  }

  #insert(stored: StoredMessage): number {
    const id = Number(this.#node.at('last').increment());
    this.#node.set('open', id, stored);
    if (stored.key !== undefined) this.#node.set('keys', stored.key, id);
    return id;
  }

  #remove({ id, stored, error }: FinishedMessage): void {
    this.#node.at('open', id).delete();
    if (error !== null) this.#node.set('dead', id, { kept: stored, error, at: Date.now() });
    if (stored.key !== undefined && this.#node.get('keys', stored.key) === id) this.#node.at('keys', stored.key).expire(Date.now() + this.#options.keyMax);
  }

  #createReply(id: number): Promise<any> {
    let resolve!: Reply['resolve'];
    let reject!: Reply['reject'];
    const promise = new Promise<any>((...both) => ([resolve, reject] = both));
    // A caller may ignore the promise; failures are also reported as events.
    promise.catch(() => {});
    this.#replies.set(id, { promise, resolve, reject });
    return promise;
  }

  // Reading from the store.

  #pumpSoon(): void {
    if (this.#isPumpDue || this.#isClosed) return;
    this.#isPumpDue = true;
    setImmediate(() => {
      this.#isPumpDue = false;
      this.#pump();
    });
  }

  /** Gives the pool messages, oldest first, up to `inFlight`. */
  #pump(): void {
    while (!this.#isClosed && this.#running.size < this.#options.inFlight && !this.#pool.needsDrain) {
      if (this.#next.length === 0) this.#read();
      const first = this.#next.shift();
      if (first === undefined) return;
      this.#run(...first);
    }
    // The pool's queue may be full of messages that are not ours; then none of our own will wake us.
    if (!this.#isClosed && this.#running.size === 0) this.#pumpLater();
  }

  #pumpLater(): void {
    this.#retryTimer ??= setTimeout(() => {
      this.#retryTimer = null;
      this.#pump();
    }, RETRY_MS).unref();
  }

  #read(): void {
    const found: [id: number, stored: StoredMessage][] = [];
    for (const [id, stored] of this.#node.at('open').entries<StoredMessage>({ after: this.#cursor, limit: PAGE })) found.push([Number(id), stored]);
    if (found.length === 0) return;
    this.#cursor = found.at(-1)![0];
    const prior = found.filter(([id]) => id <= this.#lastPriorId);
    // Counted before they run, because they may be what ended the earlier programs.
    if (prior.length > 0) {
      this.#store.transaction(() => {
        for (const [id, stored] of prior) this.#node.set('open', id, 'lives', ++stored.lives);
      });
    }
    this.#next = found;
  }

  #run(id: number, stored: StoredMessage): void {
    if (stored.lives > this.#options.lives) {
      this.#fail(id, stored, Object.assign(new Error(`${stored.lives - 1} programs ended while they had the message (lives ${this.#options.lives})`), { code: 'lives' }));
      return;
    }
    this.#running.add(id);
    this.#pool.run(messageOf(stored) as Parameters<M[string]>[0], runOptionsOf(stored)).then(
      (reply) => {
        this.#endRun(id);
        this.#finished.push({ id, stored, error: null });
        this.#writeSoon();
        this.#replies.get(id)?.resolve(reply);
        this.#replies.delete(id);
        this.emit('answered', id, reply);
      },
      (error: PoolError) => {
        this.#endRun(id);
        if (error.code === 'closed') return;
        if (error.code === 'start_failed' || error.code === 'queue_full' || error.code === 'queue_bytes_full') {
          this.#next.unshift([id, stored]);
          this.#next.sort(([a], [b]) => a - b);
          this.#pumpLater();
          return;
        }
        this.#fail(id, stored, error);
      },
    );
  }

  #fail(id: number, stored: StoredMessage, error: PoolError | (Error & { code: string })): void {
    this.#finished.push({ id, stored, error: { code: error.code, message: error.message } });
    this.#writeSoon();
    this.#replies.get(id)?.reject(error);
    this.#replies.delete(id);
    this.emit('deadLetter', id, error);
  }

  #endRun(id: number): void {
    this.#running.delete(id);
    if (this.#running.size === 0) for (const resolve of this.#idleWaiters.splice(0)) setImmediate(resolve);
    this.#pumpSoon();
  }
}

function isKey(key: unknown): boolean {
  return typeof key === 'string' && key !== '' && key.length <= KEY_LENGTH_MAX && Buffer.from(key).toString() === key;
}

function textOf(options: RunOptions): string {
  return JSON.stringify(options, (_, value: unknown) => (value === Infinity ? DURATION_MAX : value));
}

function runOptionsOf({ wishes }: StoredMessage): RunOptions<string> {
  return JSON.parse(wishes) as RunOptions<string>;
}

function bodyOf(message: unknown): { text: string } | { clone: string } {
  let body: Encoded;
  try {
    body = encode(message);
  } catch (error) {
    throw new NotSendableError((error as Error).message, error);
  }
  if (body.length > BODY_BYTES_MAX) throw new NotSendableError(`it takes ${body.length} bytes (at most ${BODY_BYTES_MAX} are kept)`);
  return typeof body === 'string' ? { text: body } : { clone: Buffer.from(body).toString('base64') };
}

function messageOf({ text, clone }: StoredMessage): unknown {
  const bytes = (clone === undefined ? Buffer.from(text!) : Buffer.from(clone, 'base64')) as Bytes;
  return decode(bytes, 0, bytes.length);
}
