/**
 * The interface of glsdb on top of the store: existing programs only change their import.
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
 * Values keep their type: `'007'` stays a string, `[]` and `{}` stay an array and an object, and arrays may have any length.
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

/** Options of a {@link glsDB}. */
export interface GlsOptions {
  /** Number of digits in keys of array elements; 6 by default. Arrays may be longer. */
  maxArrayDigits?: number | undefined;
  /** The character that pads these keys; `0` by default. */
  arrayPadChar?: string | undefined;
  /** An open connection to use. */
  db?: server | undefined;
  type?: string | undefined;
  use?: unknown;
}

/** Receives the details of an operation. */
export type Listener = (data: any) => void;

/** The only instance: as in glsdb, a second one is refused until the first is closed. */
let instance: glsDB | undefined;

export class glsDB {
  readonly #db: server;
  readonly #listeners = new Map<string, Listener>();
  /** The format of keys of array elements. @internal */
  readonly style: KeyStyle;
  /** The class of nodes: `new glsdb.node('Person.1')`. */
  readonly node: new (path: NodeKey) => GlsNode;
  /** The underlying mg-dbx interface. */
  readonly dbx: { db: server; mglobal: typeof mglobal; mcursor: typeof mcursor; mclass: typeof mclass };
  /** Transactions that begin and end with separate calls. Other writers wait until they end. */
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

  /** Opens the database; see `server.open` of forebay/mg-dbx. */
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

  /** Calls a function with the name of each global until it returns `false`. */
  forEachGlobal(options: { from?: string } | ((name: string) => unknown), callback?: (name: string) => unknown): void {
    const [from, call] = typeof options === 'function' ? ['', options] : [options.from ?? '', callback];
    for (const name of this.store.globals(from)) if (call?.(name) === false) return;
  }

  /** The document of a node or of a proxy. */
  document(node: GlsNode): any {
    return ((node as GlsNode & { _node?: GlsNode })._node ?? node).document;
  }

  /** Functions of M are not supported by this store: each call is an error. */
  function(name: string): (...args: unknown[]) => string | null {
    return (...args) => this.#db.function(name, ...args);
  }

  /** A global through the mg-dbx interface. */
  use(global: string, ...keys: Key[]): mglobal {
    return new mglobal(this.#db, global, ...keys);
  }

  /** Registers the listener for a type of operation: `get`, `set`, `delete`, `defined`, `next`, ... Each type has one listener at most. */
  on(type: string, listener: Listener): void {
    if (!this.#listeners.has(type)) this.#listeners.set(type, listener);
  }

  off(type: string): void {
    this.#listeners.delete(type);
  }

  emit(type: string, data?: unknown): void {
    this.#listeners.get(type)?.call(this, data);
  }

  /** Whether any listener is registered. @internal */
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
