import { StoreError } from './error.js';
import { mayHold, noteHeld } from './held.js';
import { CLOBBERED, putJson, takeLong } from './json.js';
import { START, answer, type NativeStore } from './native.js';
import { StoreNode } from './node.js';
import { definitionText, queryRecords, readDefinition, type IndexDefinition, type Query } from './query.js';
import { putAlone, putSteps, type Subscript } from './path.js';

/**
 * What a commit waits for: `sync` for a flush of its own, `group` for the next flush, which it shares with others, `relaxed` for
 * nothing. A crash of the process loses nothing in any mode; a power cut loses with `relaxed` at most the last flush interval.
 */
export type Durability = 'sync' | 'group' | 'relaxed';

/** How a transaction is committed. */
export interface TransactionOptions {
  /** What the commit waits for; the store's own durability when left out. In a nested transaction the outermost one's counts. */
  durability?: Durability | undefined;
  /**
   * When it is committed: `now`, which is meant when nothing is said, before `transaction` returns; or `answer`, in a worker of the
   * server, when the requests have been handled that have come at the same time, so that those whose handlers ask for this share one
   * commit. It is still all or nothing by itself, and these handlers see it at once; all others see it, and can write, only then, right
   * before it is answered. So nothing that follows in the handler should count on others seeing it, and nothing should take long: locks,
   * `flush` and transactions that are committed now commit it first. When that commit fails, the requests that share it are answered with
   * an error, and so are all others that this worker has not answered yet.
   *
   * `sync` always commits now, and so does the test kit. Outside of requests (in a timer, or a hook) it is committed when the running code has
   * ended. In a nested transaction the outermost one's counts.
   */
  commit?: 'now' | 'answer' | undefined;
}

/** Figures about a store as a whole. */
export interface StoreStats {
  /** Size of the file, in bytes. */
  fileBytes: number;
  /** How far it may grow. */
  mapMax: number;
  pageBytes: number;
  /** The number of the last commit of any process. */
  lastCommit: number;
  /** Places for snapshots that are taken, over all processes. */
  readers: number;
  /** What the log alone has of the tree until the next checkpoint, in bytes of the tree's file. */
  notCheckpointedBytes: number;
  /** The last commit that this process knows to be on the disk. */
  flushedCommit: number;
}

const DURABILITIES = { sync: 0, group: 1, relaxed: 2 } as const;
/** The store's own. */
const USUAL = -1;
const GLOBALS_PAGE = 256;

/**
 * A tree of JSON values in a folder, open in many processes at the same time. Everything is synchronous: a read takes well under a
 * microsecond, and no socket is between.
 *
 * ```js
 * import { open } from 'forebay/store';
 *
 * const store = open('data');
 * store.set('Person', 7, { firstName: 'Ada' });
 * store.get('Person', 7, 'firstName');                 // 'Ada'
 * const id = store.transaction(() => {
 *   const id = store.node('Person', 'nextId').increment();
 *   store.set('Person', id, { firstName: 'Grace' });
 *   return id;
 * });
 * ```
 */
export class Store {
  #opening: Opening | undefined;
  #native: NativeStore | undefined;
  readonly #open: () => Opening;

  /** @internal */
  constructor(open: () => Opening) {
    this.#open = open;
  }

  /** The operations of the addon. @internal */
  get native(): NativeStore {
    return this.#native ?? this.#used();
  }

  /** Sees to it that it is open, also when it has been closed. @internal */
  use(): void {
    if (this.#opening === undefined || this.#opening.count === 0) this.#used();
  }

  #used(): NativeStore {
    this.#opening = this.#open();
    return (this.#native = this.#opening.native);
  }

  /** The folder. */
  get path(): string {
    return this.native.path;
  }

  /** A place in the tree; it need not exist. Names of globals are letters, digits and any of `%._-`. */
  node(global: string, ...subscripts: Subscript[]): StoreNode {
    return new StoreNode(this, [checkGlobal(global), ...subscripts]);
  }

  /** What was set at a node: see {@link StoreNode.get}. */
  get<T = any>(global: string, ...subscripts: Subscript[]): T | undefined {
    // The same as a node does, without making one.
    const native = this.native;
    return answer(native.get(putSteps(checkGlobal(global), subscripts, subscripts.length))) as T | undefined;
  }

  /** Gives a node a value: see {@link StoreNode.set}. */
  set(global: string, ...subscriptsAndValue: [...subscripts: Subscript[], value: unknown]): void {
    const native = this.native;
    const last = subscriptsAndValue.length - 1;
    if (last < 0) throw new StoreError('not_json', 'cannot store undefined');
    let path = putSteps(checkGlobal(global), subscriptsAndValue, last);
    const end = putJson(path, subscriptsAndValue[last]);
    if (end > 0) {
      native.set(path, end);
      return;
    }
    if (end === CLOBBERED) path = putSteps(checkGlobal(global), subscriptsAndValue, last);
    native.set(path, 0, takeLong());
  }

  /** Removes a node and all below it; says whether there was one. */
  kill(global: string, ...subscripts: Subscript[]): boolean {
    return this.node(global, ...subscripts).kill();
  }

  /**
   * Runs a function as one transaction: other processes see all of its writes or none, and nobody else writes meanwhile. The function
   * is synchronous; when it throws or returns a promise, everything is rolled back and that is thrown. Waits until nobody else
   * writes. A transaction inside another one is a part of it: when it fails, the outer one cannot be committed any more.
   *
   * @returns what the function returned.
   */
  transaction<T>(work: (store: this) => T, options: TransactionOptions = {}): T {
    const native = this.native;
    const durability = durabilityNumber(options.durability);
    const waits = waitsForAnswer(options.commit);
    const level = native.begin(waits ? 1 : 0);
    // Before anything can go wrong: what its own function ends is held, too.
    if (waits) noteHeld(native);
    let outcome: T;
    try {
      outcome = work(this);
      if (isThenable(outcome)) {
        // What becomes of it does not matter any more.
        outcome.then(undefined, () => {});
        throw new StoreError('async_transaction', 'the function of a transaction returned a promise: it must be synchronous');
      }
      if (native.level() !== level) {
        throw new StoreError('aborted', 'a transaction that began inside this one was not ended');
      }
    } catch (error) {
      while (native.level() >= level) native.rollBack();
      throw error;
    }
    native.commit(durability);
    return outcome;
  }

  /** Runs a function all of whose reads are of one state, whatever others write meanwhile. It is synchronous and cannot write. */
  snapshot<T>(work: (store: this) => T): T {
    const native = this.native;
    native.beginSnapshot();
    let outcome: T;
    try {
      outcome = work(this);
    } finally {
      native.endSnapshot();
    }
    if (isThenable(outcome)) {
      outcome.then(undefined, () => {});
      throw new StoreError('async_transaction', 'the function of a snapshot returned a promise: it must be synchronous');
    }
    return outcome;
  }

  /** The names of the globals that hold something, in the order of their bytes, from one on. */
  *globals(from = ''): Generator<string, void, void> {
    for (let after: 0 | 1 = 0; ; after = 1) {
      const names: string[] = this.native.globals(from === '' ? START : putAlone(from), after, GLOBALS_PAGE);
      yield* names;
      if (names.length < GLOBALS_PAGE) return;
      from = names[names.length - 1]!;
    }
  }

  /**
   * Makes an index over the records that there are and all that will come, kept in the transactions that change them. The same one again
   * changes nothing.
   *
   * ```js
   * store.defineIndex({ name: 'by_city', records: store.node('Person'), fields: ['city', 'born'] });
   * for (const person of store.query('by_city', { equal: 'London', from: 1800, to: 1899 })) console.log(person.key);
   * ```
   */
  defineIndex(definition: IndexDefinition): void {
    this.native.defineIndex(definitionText(definition));
  }

  /** Drops an index; says whether there was one. */
  dropIndex(name: string): boolean {
    return this.native.dropIndex(putAlone(name));
  }

  /** All indexes. */
  indexes(): IndexDefinition[] {
    return this.native.indexes().map((text) => readDefinition(this, text));
  }

  /**
   * The records of an index that a question is about, in the order of the index. They are read in pages: each comes once, whatever happens
   * to others meanwhile; one whose own values change meanwhile may come again further on, or not at all. Inside `snapshot` all are of one
   * state.
   */
  query(index: string, query: Query = {}): Generator<StoreNode, void, void> {
    return queryRecords(this, index, query);
  }

  /** Takes back every lock of this thread. */
  unlockAll(): void {
    this.native.unlockAll();
  }

  /** Makes every commit durable that was made before the call, by any process. */
  flush(): void {
    this.native.flush();
  }

  /** Figures about the store as a whole. */
  stats(): StoreStats {
    const [fileBytes, mapMax, pageBytes, lastCommit, readers, notCheckpointedBytes, flushedCommit] = this.native.stats() as [
      number, number, number, number, number, number, number,
    ];
    return { fileBytes, mapMax, pageBytes, lastCommit, readers, notCheckpointedBytes, flushedCommit };
  }

  /** Closes the store, once for each time that it was opened. Refused inside a transaction. */
  close(): void {
    const native = this.native;
    const opening = this.#opening!;
    if (opening.count > 1) {
      opening.count--;
      return;
    }
    native.close();
    opening.count = 0;
    opening.closed();
  }
}

/** A store that this thread has open. */
export interface Opening {
  readonly native: NativeStore;
  /** What `open` gives. */
  readonly store: Store;
  /** How often it was opened, to be used by itself included. It is closed with the last of these. */
  count: number;
  /** Called when it has been closed. */
  closed(): void;
}

/** The number of a durability in a call. @internal */
export function durabilityNumber(durability: Durability | undefined): number {
  if (durability === undefined) return USUAL;
  const number: number | undefined = Object.hasOwn(DURABILITIES, durability) ? DURABILITIES[durability] : undefined;
  if (number === undefined) {
    throw new StoreError('unsupported', `the durability is sync, group or relaxed, not ${JSON.stringify(durability)}`);
  }
  return number;
}

function waitsForAnswer(commit: TransactionOptions['commit']): boolean {
  if (commit === undefined || commit === 'now') return false;
  if (commit === 'answer') return mayHold();
  throw new StoreError('unsupported', `a transaction is committed now or with the answer, not ${JSON.stringify(commit)}`);
}

/** Throws when a global cannot have that name; what a text may be is for the store to say. */
export function checkGlobal(name: unknown): string {
  if (typeof name === 'string') return name;
  throw new StoreError('key', `the name of a global is a string, not ${name === null ? 'null' : typeof name}`);
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
