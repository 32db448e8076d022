/**
 * Messages that outlive the program: kept in a store until they are answered, and run by a pool at least once.
 *
 * Below the queue's node are `open` (messages by number, in the order in which they came), `dead` (those that failed), `keys` (numbers by
 * idempotency key) and `last`, the last number that was given. **Invariants:** a message is acknowledged when the transaction that keeps it is
 * committed, and leaves `open` in the one that keeps its dead letter or forgets it; a program that ends at any time leaves it in `open`.
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

/** Where messages are kept, and how many. */
export interface DurableOptions {
  /** An opened store, or the folder of one. */
  store: Store | string;
  /** The queue's name in the store, `queue` unless you say otherwise: one program has it at a time. */
  name?: string;
  /** The global that queues are in; `ForebayQueue` unless you say otherwise. */
  global?: string;
  /** Messages that are kept, at most; 1,000,000 unless you say otherwise. */
  max?: number;
  /** Messages that are given to the pool at a time; 1,000 unless you say otherwise. */
  inFlight?: number;
  /** How many programs may end with a message open before it is a dead letter, as it may be what ends them; 10 unless you say otherwise. */
  lives?: number;
  /** Milliseconds for which the key of a message is known after that has been answered; a day unless you say otherwise. */
  keyMax?: number;
}

/** What a message is kept with. */
export interface EnqueueOptions<T extends string = string> {
  type?: T;
  priority?: number;
  affinity?: string;
  attempts?: number;
  deadline?: number | Deadlines;
  /** Idempotency key: the same one again is the same message, which is neither kept nor run once more. */
  key?: string;
}

/** A message that is kept. */
export interface Enqueued<Reply = unknown> {
  readonly id: number;
  /** The reply, or why there is none; `null` for a key whose message this program does not know any more. Nobody need wait for it. */
  readonly reply: Promise<Reply> | null;
}

/** A message that failed, and is kept until it is retried or dropped. */
export interface DeadMessage {
  readonly id: number;
  readonly type: string | undefined;
  readonly message: unknown;
  readonly error: { readonly code: string; readonly message: string };
  /** When it failed. */
  readonly at: Date;
}

export interface DurableEvents {
  /** A message was answered, by this program or after one that ended before. */
  answered: [id: number, reply: unknown];
  /** A message failed as often as it may. */
  deadLetter: [id: number, error: PoolError | Error];
  /** The store refused what was to be written: it is tried again with the next write. */
  error: [error: Error];
}

interface Kept {
  /** The options of its `run()`, as text. */
  readonly wishes: string;
  readonly text?: string;
  /** A structured clone, in base64. */
  readonly clone?: string;
  readonly key?: string;
  /** Programs that have had it. */
  lives: number;
}

interface Incoming {
  readonly kept: Kept;
  readonly resolve: (enqueued: Enqueued<any>) => void;
  readonly reject: (error: unknown) => void;
}

/** What became of a message, until it is written. */
interface Over {
  readonly id: number;
  readonly kept: Kept;
  readonly error: { code: string; message: string } | null;
}

interface Reply {
  readonly promise: Promise<any>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

const BODY_BYTES_MAX = 33_554_432;
const KEY_LENGTH_MAX = 256;
/** Messages are read from the store in pages of so many. */
const PAGE = 100;
/** What could not be given to the pool is tried again after so many milliseconds. */
const AGAIN_MS = 100;

/**
 * A queue in a store, whose messages a pool runs.
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
  /** Messages that are kept and not answered. */
  #size = 0;
  /** The last one that was given to the pool, or is about to be. */
  #cursor = 0;
  /** The last one of earlier programs. */
  readonly #inherited: number;
  readonly #replies = new Map<number, Reply>();
  readonly #running = new Set<number>();
  /** Read, and not given to the pool yet. */
  #next: [id: number, kept: Kept][] = [];
  #incoming: Incoming[] = [];
  #over: Over[] = [];
  #isWriteDue = false;
  #isPumpDue = false;
  #again: NodeJS.Timeout | null = null;
  #isClosed = false;
  #whenRested: (() => void)[] = [];

  /** @throws Error where another program has the queue, and StoreError where the store cannot be opened. */
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
    this.#inherited = Number(this.#node.get('last') ?? 0);
    this.#pumpSoon();
  }

  /** Messages that are kept and not answered. */
  get size(): number {
    return this.#size;
  }

  /**
   * Keeps a message: resolves when the store has it, as durably as the store's commits are. From then on it is run at least once, by this program or the next.
   * Messages of one turn of the event loop share a commit.
   */
  enqueue<T extends keyof M & string>(message: Parameters<M[T]>[0], { key, ...wishes }: EnqueueOptions<T> = {}): Promise<Enqueued<Awaited<ReturnType<M[T]>>>> {
    return new Promise((resolve, reject) => {
      if (this.#isClosed) throw new ClosedError('the queue is closed');
      if (key !== undefined && !isKey(key)) throw new TypeError(`key is a text of 1 to ${KEY_LENGTH_MAX} characters`);
      this.#pool.check(wishes);
      if (this.#size + this.#incoming.length >= this.#options.max) {
        throw new QueueFullError('queue_full', `queue ${JSON.stringify(this.#options.name)} is full (max ${this.#options.max})`);
      }
      const kept: Kept = { wishes: textOf(wishes), ...bodyOf(message), ...(key === undefined ? {} : { key }), lives: 1 };
      this.#incoming.push({ kept, resolve, reject });
      this.#writeSoon();
    });
  }

  /** Messages that failed, the oldest first. */
  *deadLetters(): Generator<DeadMessage, void, void> {
    for (const [id, { kept, error, at }] of this.#node.at('dead').entries<{ kept: Kept; error: DeadMessage['error']; at: number }>()) {
      yield { id: Number(id), type: wishesOf(kept).type, message: messageOf(kept), error, at: new Date(at) };
    }
  }

  /** Has a dead letter run again, as a message that comes now. @throws RangeError where there is none of this number. */
  async retryDeadLetter(id: number): Promise<Enqueued> {
    if (this.#isClosed) throw new ClosedError('the queue is closed');
    const dead = this.#node.get<{ kept: Kept }>('dead', id);
    if (dead === undefined) throw new RangeError(`there is no dead letter ${id}`);
    const kept = { ...dead.kept, lives: 1 };
    const newId = this.#store.transaction(() => {
      this.#node.at('dead', id).kill();
      return this.#keep(kept);
    });
    this.#size++;
    this.#pumpSoon();
    return { id: newId, reply: this.#expect(newId) };
  }

  /** Forgets a dead letter; says whether there was one. */
  dropDeadLetter(id: number): boolean {
    return this.#node.at('dead', id).kill();
  }

  /** Gives the pool no more messages, waits for those that it has, and leaves the rest to the next program. Comes before the pool's `close()`. */
  async close(): Promise<void> {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#next = [];
    if (this.#again !== null) clearTimeout(this.#again);
    this.#write();
    if (this.#running.size > 0) await new Promise<void>((resolve) => this.#whenRested.push(resolve));
    this.#write();
    for (const { reject } of this.#replies.values()) reject(new ClosedError('the queue was closed; the message is kept for the next program'));
    this.#replies.clear();
    this.#node.unlock();
  }

  // Into the store.

  #writeSoon(): void {
    if (this.#isWriteDue) return;
    this.#isWriteDue = true;
    setImmediate(() => {
      this.#isWriteDue = false;
      this.#write();
    });
  }

  /** Writes what has come and what is over, all or nothing. */
  #write(): void {
    const incoming = this.#incoming;
    const over = this.#over;
    if (incoming.length === 0 && over.length === 0) return;
    this.#incoming = [];
    this.#over = [];
    let ids: [id: number, isNew: boolean][];
    try {
      ids = this.#store.transaction(() => {
        for (const each of over) this.#forget(each);
        return incoming.map(({ kept }) => {
          const known = kept.key === undefined ? undefined : this.#node.get<number>('keys', kept.key);
          return known === undefined ? [this.#keep(kept), true] : [known, false];
        });
      });
    } catch (error) {
      this.#over = over.concat(this.#over);
      for (const { reject } of incoming) reject(error);
      if (over.length > 0) this.emit('error', error as Error);
      return;
    }
    this.#size -= over.length;
    for (const [index, { resolve }] of incoming.entries()) {
      const [id, isNew] = ids[index]!;
      if (isNew) this.#size++;
      resolve({ id, reply: isNew ? this.#expect(id) : (this.#replies.get(id)?.promise ?? null) });
    }
    this.#pumpSoon();
  }

  #keep(kept: Kept): number {
    const id = Number(this.#node.at('last').increment());
    this.#node.set('open', id, kept);
    if (kept.key !== undefined) this.#node.set('keys', kept.key, id);
    return id;
  }

  #forget({ id, kept, error }: Over): void {
    this.#node.at('open', id).kill();
    if (error !== null) this.#node.set('dead', id, { kept, error, at: Date.now() });
    if (kept.key !== undefined && this.#node.get('keys', kept.key) === id) this.#node.at('keys', kept.key).expire(Date.now() + this.#options.keyMax);
  }

  #expect(id: number): Promise<any> {
    let resolve!: Reply['resolve'];
    let reject!: Reply['reject'];
    const promise = new Promise<any>((...both) => ([resolve, reject] = both));
    // Whoever does not ask for it is told by events.
    promise.catch(() => {});
    this.#replies.set(id, { promise, resolve, reject });
    return promise;
  }

  // Out of it.

  #pumpSoon(): void {
    if (this.#isPumpDue || this.#isClosed) return;
    this.#isPumpDue = true;
    setImmediate(() => {
      this.#isPumpDue = false;
      this.#pump();
    });
  }

  /** Gives the pool messages, the oldest first, as many as it may have. */
  #pump(): void {
    while (!this.#isClosed && this.#running.size < this.#options.inFlight && !this.#pool.needsDrain) {
      if (this.#next.length === 0) this.#read();
      const first = this.#next.shift();
      if (first === undefined) return;
      this.#run(...first);
    }
    // Others than this queue may fill the pool's.
    if (!this.#isClosed && this.#running.size === 0) this.#pumpLater();
  }

  #pumpLater(): void {
    this.#again ??= setTimeout(() => {
      this.#again = null;
      this.#pump();
    }, AGAIN_MS).unref();
  }

  #read(): void {
    const found: [id: number, kept: Kept][] = [];
    for (const [id, kept] of this.#node.at('open').entries<Kept>({ after: this.#cursor, limit: PAGE })) found.push([Number(id), kept]);
    if (found.length === 0) return;
    this.#cursor = found.at(-1)![0];
    const inherited = found.filter(([id]) => id <= this.#inherited);
    // Before they are run: they may be what ended the programs that had them.
    if (inherited.length > 0) {
      this.#store.transaction(() => {
        for (const [id, kept] of inherited) this.#node.set('open', id, 'lives', ++kept.lives);
      });
    }
    this.#next = found;
  }

  #run(id: number, kept: Kept): void {
    if (kept.lives > this.#options.lives) {
      this.#fail(id, kept, Object.assign(new Error(`${kept.lives - 1} programs ended while they had the message (lives ${this.#options.lives})`), { code: 'lives' }));
      return;
    }
    this.#running.add(id);
    this.#pool.run(messageOf(kept) as Parameters<M[string]>[0], wishesOf(kept)).then(
      (reply) => {
        this.#rest(id);
        this.#over.push({ id, kept, error: null });
        this.#writeSoon();
        this.#replies.get(id)?.resolve(reply);
        this.#replies.delete(id);
        this.emit('answered', id, reply);
      },
      (error: PoolError) => {
        this.#rest(id);
        if (error.code === 'closed') return;
        if (error.code === 'start_failed' || error.code === 'queue_full' || error.code === 'queue_bytes_full') {
          this.#next.unshift([id, kept]);
          this.#next.sort(([a], [b]) => a - b);
          this.#pumpLater();
          return;
        }
        this.#fail(id, kept, error);
      },
    );
  }

  #fail(id: number, kept: Kept, error: PoolError | (Error & { code: string })): void {
    this.#over.push({ id, kept, error: { code: error.code, message: error.message } });
    this.#writeSoon();
    this.#replies.get(id)?.reject(error);
    this.#replies.delete(id);
    this.emit('deadLetter', id, error);
  }

  #rest(id: number): void {
    this.#running.delete(id);
    if (this.#running.size === 0) for (const resolve of this.#whenRested.splice(0)) setImmediate(resolve);
    this.#pumpSoon();
  }
}

function isKey(key: unknown): boolean {
  return typeof key === 'string' && key !== '' && key.length <= KEY_LENGTH_MAX && Buffer.from(key).toString() === key;
}

function textOf(wishes: RunOptions): string {
  return JSON.stringify(wishes, (_, value: unknown) => (value === Infinity ? DURATION_MAX : value));
}

function wishesOf({ wishes }: Kept): RunOptions<string> {
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

function messageOf({ text, clone }: Kept): unknown {
  const bytes = (clone === undefined ? Buffer.from(text!) : Buffer.from(clone, 'base64')) as Bytes;
  return decode(bytes, 0, bytes.length);
}
