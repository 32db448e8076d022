import { StoreError } from './error.js';
import { mayDefer, deferCommits } from './deferred-commits.js';
import { CLOBBERED, putJson, takeLong } from './json.js';
import { START, answer, type NativeStore } from './native.js';
import { StoreNode } from './node.js';
import { definitionText, queryRecords, readDefinition, type IndexDefinition, type Query } from './query.js';
import { putAlone, putSteps, type Subscript } from './path.js';

/**
 * When a commit returns: `sync` after a flush of its own, `group` after the next flush, which it shares with other commits, `relaxed`
 * at once. A crash of the process loses nothing in any mode; a power failure loses with `relaxed` at most the last flush interval.
 */
export type Durability = 'sync' | 'group' | 'relaxed';

/** Options of a transaction. */
export interface TransactionOptions {
  /** When the commit returns; by default the store's setting. For a nested transaction, the outermost one's option applies. */
  durability?: Durability | undefined;
  /**
   * When to commit: `now`, the default, before `transaction` returns; or `answer`, in a worker of the server, after all requests that
   * arrived at the same time have been handled, so that those whose handlers choose this share one commit. Each transaction is still
   * atomic by itself, and these handlers see its writes at once. Others see them, and can write, only after the commit, which happens right
   * before the responses are sent. So the rest of the handler must not rely on others seeing the writes, and should be quick: locks,
   * `flush` and transactions with `now` commit it first. If that commit fails, all requests that share it are answered with an error, and
   * so are all others that this worker has not answered yet.
   *
   * `sync` always commits now, and so does the test kit. Outside of requests (in a timer or a hook), the commit happens when the running
   * code ends. For a nested transaction, the outermost one's option applies.
   */
  commit?: 'now' | 'answer' | undefined;
}

/** Statistics of a store. */
export interface StoreStats {
  /** Size of the file, in bytes. */
  fileBytes: number;
  /** Maximum size of the file, in bytes. */
  mapMax: number;
  pageBytes: number;
  /** The number of the last commit of any process. */
  lastCommit: number;
  /** Reader slots in use, over all processes. */
  readers: number;
  /** Data that is only in the log until the next checkpoint, in bytes of the tree's file. */
  notCheckpointedBytes: number;
  /** The last commit that this process knows to be flushed to disk. */
  flushedCommit: number;
}

const DURABILITIES = { sync: 0, group: 1, relaxed: 2 } as const;
/** Stands for the store's own durability. */
const USUAL = -1;
const GLOBALS_PAGE = 256;

/**
 * A tree of JSON values in a folder, open in many processes at the same time. All methods are synchronous: a read is a function call that
 * takes well under a microsecond, not a network request.
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

  /** Opens the store if it is not open, even if it was closed before. @internal */
  use(): void {
    if (this.#opening === undefined || this.#opening.count === 0) this.#used();
  }

  /** Closes the store if it is open, however often it was opened; an open transaction is rolled back. The next use opens it again. @internal */
  reset(): void {
    const opening = this.#opening;
    if (opening !== undefined && opening.count > 0) {
      while (opening.native.level() > 0) opening.native.rollBack();
      opening.count = 1;
      this.close();
    }
    this.#opening = this.#native = undefined;
  }

  #used(): NativeStore {
    this.#opening = this.#open();
    return (this.#native = this.#opening.native);
  }

  /** The path of the store's folder. */
  get path(): string {
    return this.native.path;
  }

  /** A node of the tree, which need not exist. Names of globals consist of letters, digits and any of `%._-`. */
  node(global: string, ...subscripts: Subscript[]): StoreNode {
    return new StoreNode(this, [checkGlobal(global), ...subscripts]);
  }

  /** The value of a node; see {@link StoreNode.get}. */
  get<T = any>(global: string, ...subscripts: Subscript[]): T | undefined {
    // The same as StoreNode.get, without creating a node object.
    const native = this.native;
    return answer(native.get(putSteps(checkGlobal(global), subscripts, subscripts.length))) as T | undefined;
  }

  /** Sets the value of a node; see {@link StoreNode.set}. */
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

  /** Deletes a node and its subtree; returns whether it existed. See {@link StoreNode.delete}. */
  delete(global: string, ...subscripts: Subscript[]): boolean {
    return this.node(global, ...subscripts).delete();
  }

  /**
   * Runs a function as one transaction: other processes see all of its writes or none, and no one else writes meanwhile. Waits for other
   * writers first. The function must be synchronous: if it throws or returns a promise, everything is rolled back and an error is thrown.
   * A transaction inside another one is part of it: if it fails, the outer one cannot be committed any more.
   *
   * @returns the function's result.
   */
  transaction<T>(work: (store: this) => T, options: TransactionOptions = {}): T {
    const native = this.native;
    const durability = durabilityNumber(options.durability);
    const waits = waitsForAnswer(options.commit);
    const level = native.begin(waits ? 1 : 0);
    // Before running the function, because anything that it commits is deferred, too.
    if (waits) deferCommits(native);
    let outcome: T;
    try {
      outcome = work(this);
      if (isThenable(outcome)) {
        // The promise's own result is ignored.
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

  /** Runs a function whose reads all see the same state, whatever others write meanwhile. It must be synchronous and cannot write. */
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

  /** The names of non-empty globals in byte order, starting at `from`. */
  *globals(from = ''): Generator<string, void, void> {
    for (let after: 0 | 1 = 0; ; after = 1) {
      const names: string[] = this.native.globals(from === '' ? START : putAlone(from), after, GLOBALS_PAGE);
      yield* names;
      if (names.length < GLOBALS_PAGE) return;
      from = names[names.length - 1]!;
    }
  }

  /**
   * Defines an index over all present and future records, maintained in the transactions that change them. Defining the same index again
   * has no effect.
   *
   * ```js
   * store.defineIndex({ name: 'by_city', records: store.node('Person'), fields: ['city', 'born'] });
   * for (const person of store.query('by_city', { equal: 'London', from: 1800, to: 1899 })) console.log(person.key);
   * ```
   */
  defineIndex(definition: IndexDefinition): void {
    this.native.defineIndex(definitionText(definition));
  }

  /** Drops an index; returns whether it existed. */
  dropIndex(name: string): boolean {
    return this.native.dropIndex(putAlone(name));
  }

  /** The definitions of all indexes. */
  indexes(): IndexDefinition[] {
    return this.native.indexes().map((text) => readDefinition(this, text));
  }

  /**
   * The records that match a query, in the order of the index. They are read in pages: each record appears once, whatever happens to others
   * meanwhile; a record whose own values change meanwhile may appear again later on, or not at all. Inside `snapshot`, all come from one
   * state.
   */
  query(index: string, query: Query = {}): Generator<StoreNode, void, void> {
    return queryRecords(this, index, query);
  }

  /** Releases all locks of this thread. */
  unlockAll(): void {
    this.native.unlockAll();
  }

  /** Makes all commits made before the call durable, those of other processes included. */
  flush(): void {
    this.native.flush();
  }

  /** Statistics of the store. */
  stats(): StoreStats {
    const [fileBytes, mapMax, pageBytes, lastCommit, readers, notCheckpointedBytes, flushedCommit] = this.native.stats() as [
      number, number, number, number, number, number, number,
    ];
    return { fileBytes, mapMax, pageBytes, lastCommit, readers, notCheckpointedBytes, flushedCommit };
  }

  /** Closes the store; call it as often as the store was opened. Not allowed inside a transaction. */
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

/** A store opened by this thread. */
export interface Opening {
  readonly native: NativeStore;
  /** The object that `open` returns for it. */
  readonly store: Store;
  /** How often it was opened, including implicitly on first use. The last `close` closes it. */
  count: number;
  /** Called after the store has been closed. */
  closed(): void;
}

/** The number of a durability mode in the addon's interface. @internal */
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
  if (commit === 'answer') return mayDefer();
  throw new StoreError('unsupported', `a transaction is committed now or with the answer, not ${JSON.stringify(commit)}`);
}

/** Throws if a value is no string; the store itself validates the name. */
export function checkGlobal(name: unknown): string {
  if (typeof name === 'string') return name;
  throw new StoreError('key', `the name of a global is a string, not ${name === null ? 'null' : typeof name}`);
}

function isThenable(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function';
}
