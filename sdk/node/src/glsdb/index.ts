/**
 * The interface of glsdb over the store: programs that were written for it change what they import.
 *
 * ```js
 * import { glsDB } from 'forebay/glsdb';
 *
 * const glsdb = new glsDB();
 * glsdb.open({ type: 'Forebay', path: 'data' });   // in a worker, `glsdb.open()` is the server's store
 * const person = new glsdb.node('Person.data');
 * person.$(1).document = { firstName: 'Ada', tags: ['x', 'y'] };
 * person.$(1).$('tags')._(0).value;                // 'x'
 * ```
 *
 * Values keep the type they were given: `'007'` is a text, `[]` and `{}` are what they are, an array has any length.
 *
 * @module
 */
import { mclass } from '../mgdbx/mclass.js';
import { mcursor } from '../mgdbx/mcursor.js';
import { mglobal } from '../mgdbx/mglobal.js';
import { server, type Key, type ServerOptions } from '../mgdbx/server.js';
import { StoreError } from '../store/error.js';
import type { Store } from '../store/store.js';
import type { KeyStyle } from './keys.js';
import { GlsNode, type NodeKey } from './node.js';

export { GlsNode, type EachOptions, type LeafOptions, type NodeKey } from './node.js';

/** How glsdb is made. */
export interface GlsOptions {
  /** Digits in the keys of array elements; 6 when left out. Arrays may be longer. */
  maxArrayDigits?: number | undefined;
  /** What fills these up; `0` when left out. */
  arrayPadChar?: string | undefined;
  /** A connection that is open already. */
  db?: server | undefined;
  type?: string | undefined;
  use?: unknown;
}

/** Called with what an operation was about. */
export type Listener = (data: any) => void;

/** The one that exists: a second is refused, as in glsdb, until the first is closed. */
let instance: glsDB | undefined;

export class glsDB {
  readonly #db: server;
  readonly #listeners = new Map<string, Listener>();
  /** How keys of array elements are written. @internal */
  readonly style: KeyStyle;
  /** The class of nodes: `new glsdb.node('Person.1')`. */
  readonly node: new (path: NodeKey) => GlsNode;
  /** The interface below this one. */
  readonly dbx: { db: server; mglobal: typeof mglobal; mcursor: typeof mcursor; mclass: typeof mclass };
  /** Transactions that begin and end by calls; others wait to write until they end. */
  readonly transaction: { start(): string; level(): string; commit(): string; rollback(): string };

  constructor(options: GlsOptions | string = {}) {
    if (instance !== undefined) throw new Error('You can only create one instance!');
    instance = this;
    const { maxArrayDigits = 6, arrayPadChar = '0', db = new server() } = typeof options === 'string' ? {} : options;
    this.style = { digits: maxArrayDigits, pad: arrayPadChar };
    this.#db = db;
    this.dbx = { db, mglobal, mcursor, mclass };
    const glsdb = this;
    this.node = class extends GlsNode {
      constructor(path: NodeKey) {
        super(glsdb, path);
      }
    };
    this.transaction = {
      start: () => db.tstart(),
      level: () => db.tlevel(),
      commit: () => db.tcommit(),
      rollback: () => db.trollback(),
    };
  }

  /** @internal */
  get store(): Store {
    return this.#db.store;
  }

  /** Opens the database: see `server.open` of forebay/mg-dbx. */
  open(options: ServerOptions = {}): void {
    if (this.#db.open(options) === '') throw new StoreError('no_store', this.#db.geterrormessage());
  }

  close(): void {
    if (this.#db.isOpen) this.#db.close();
    if (instance === this) instance = undefined;
  }

  get version(): string {
    return this.#db.version();
  }

  /** The names of all globals. */
  get directory(): string[] {
    return [...this.store.globals()];
  }

  /** Calls with the name of each global until it returns `false`. */
  forEachGlobal(options: { from?: string } | ((name: string) => unknown), callback?: (name: string) => unknown): void {
    const [from, call] = typeof options === 'function' ? ['', options] : [options.from ?? '', callback];
    for (const name of this.store.globals(from)) if (call?.(name) === false) return;
  }

  /** The document of a node or of a proxy. */
  document(node: GlsNode): any {
    return ((node as GlsNode & { _node?: GlsNode })._node ?? node).document;
  }

  /** A function of M, of which this store has none. */
  function(name: string): (...args: unknown[]) => string | null {
    return (...args) => this.#db.function(name, ...args);
  }

  /** A global of the interface below. */
  use(global: string, ...keys: Key[]): mglobal {
    return new mglobal(this.#db, global, ...keys);
  }

  /** Has a function called at each operation of a type: `get`, `set`, `delete`, `defined`, `next`, ... One for each type. */
  on(type: string, listener: Listener): void {
    if (!this.#listeners.has(type)) this.#listeners.set(type, listener);
  }

  off(type: string): void {
    this.#listeners.delete(type);
  }

  emit(type: string, data?: unknown): void {
    this.#listeners.get(type)?.call(this, data);
  }

  /** Whether anybody wants to know of operations. @internal */
  get listens(): boolean {
    return this.#listeners.size > 0;
  }

  classMethod(): never {
    throw new StoreError('unsupported', 'this store knows no classes of InterSystems');
  }

  irisClass(): never {
    return this.classMethod();
  }

  irisClassExists(): boolean {
    return false;
  }
}
