import { StoreError } from '../store/error.js';
import { noteLevel } from '../store/open-transactions.js';
import { answer, type NativeStore } from '../store/native.js';
import { open as openStore, store as provided } from '../store/open-stores.js';
import { checkGlobal, type Store } from '../store/store.js';
import { type StoreNode } from '../store/node.js';
import { putPath, putSubscript, type Subscript } from '../store/path.js';
import { VERSION } from '../version.js';

/** Options of `open`. Options for other databases (`host`, `env_vars`, ...) are accepted and ignored. */
export interface ServerOptions {
  /** `Forebay` opens the store in the folder `path`; any other type means the store of the server that runs this worker. */
  type?: string | undefined;
  path?: string | undefined;
  /** An open store to use. */
  store?: Store | undefined;
  /** Seconds; stored, but without effect for a database in this process. */
  timeout?: number | undefined;
  [name: string]: unknown;
}

/** Called with whether an error occurred, and with the result. */
export type Callback = (error: boolean, data: any) => void;

/** A key of a node. All keys are text: `1` and `'1'` are the same key. */
export type Key = string | number | bigint;

/** The longest prefix of a text that M uses as its numeric value. */
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/;

/**
 * An mg-dbx connection to the store. Methods do not throw: on failure they return `''`, and {@link server.geterrormessage} says why.
 * If the last argument is a function, the operation calls it with the result once the current code has finished.
 */
export class server {
  #store: Store | undefined;
  #own = false;
  #error = '';
  #charset = 'utf-8';
  #timeout = 10;
  #namespace = '';

  /** @internal */
  get store(): Store {
    if (this.#store === undefined) throw new StoreError('closed', 'the database is not open');
    return this.#store;
  }

  /** @internal */
  get isOpen(): boolean {
    return this.#store !== undefined;
  }

  version(): string {
    return `Forebay ${VERSION}`;
  }

  dbversion(): string {
    return this.version();
  }

  open(options: ServerOptions = {}, callback?: Callback): string | null {
    return this.attempt(callback, () => {
      if (options.timeout !== undefined) this.#timeout = Number(options.timeout);
      const folder = String(options.type).toLowerCase() === 'forebay' ? options.path : undefined;
      this.#own = options.store === undefined && folder !== undefined;
      this.#store = options.store ?? (folder === undefined ? provided : openStore(folder));
      // Touch the store now, so that a missing one is reported here and not at the first operation.
      this.#namespace = this.#store.path;
      return '1';
    }, () => (this.#store = undefined));
  }

  close(callback?: Callback): string | null {
    return this.attempt(callback, () => {
      if (this.#own) this.store.close();
      this.#store = undefined;
      return '';
    });
  }

  /** The store's folder. It cannot be changed. */
  namespace(_name?: string): string {
    return this.#namespace;
  }

  charset(name?: string): string {
    return name === undefined ? this.#charset : this.setcharset(name);
  }

  setcharset(name: string): string {
    if (['utf-8', 'utf8', 'ascii', 'binary'].includes(String(name).toLowerCase())) this.#charset = String(name).toLowerCase();
    return this.#charset;
  }

  settimeout(seconds: number): string {
    if (seconds > 3) this.#timeout = seconds;
    return String(this.#timeout);
  }

  geterrormessage(): string {
    return this.#error;
  }

  set(global: string, ...args: any[]): string | null {
    return this.node(global).set(...args);
  }

  get(global: string, ...args: any[]): string | null {
    return this.node(global).get(...args);
  }

  delete(global: string, ...args: any[]): string | null {
    return this.node(global).delete(...args);
  }

  defined(global: string, ...args: any[]): string | null {
    return this.node(global).defined(...args);
  }

  next(global: string, ...args: any[]): string | null {
    return this.node(global).next(...args);
  }

  previous(global: string, ...args: any[]): string | null {
    return this.node(global).previous(...args);
  }

  increment(global: string, ...args: any[]): string | null {
    return this.node(global).increment(...args);
  }

  lock(global: string, ...args: any[]): string | null {
    return this.node(global).lock(...args);
  }

  unlock(global: string, ...args: any[]): string | null {
    return this.node(global).unlock(...args);
  }

  /**
   * Begins a transaction for all operations until it ends. Do not return to the event loop before that: other writers wait. A transaction
   * that is still open after its request was handled is rolled back, and the request is answered with 500.
   */
  tstart(): string {
    return this.#bracket((native) => native.begin(0));
  }

  /** The nesting depth of open transactions. */
  tlevel(): string {
    return this.attempt(undefined, () => String(this.store.native.level())) as string;
  }

  tcommit(): string {
    return this.#bracket((native) => native.commit(-1));
  }

  trollback(): string {
    return this.#bracket((native) => {
      // As in M, a rollback undoes all open transactions.
      do native.rollBack();
      while (native.level() > 0);
    });
  }

  /** Runs a step that begins or ends a transaction. */
  #bracket(step: (native: NativeStore) => void): string {
    return this.attempt(undefined, () => {
      const { native } = this.store;
      try {
        step(native);
      } finally {
        noteLevel(native);
      }
      return '0';
    }) as string;
  }

  /** M routines are not supported. */
  function(..._args: unknown[]): string | null {
    return this.unsupported('functions of M');
  }

  classmethod(..._args: unknown[]): string | null {
    return this.unsupported('classes of InterSystems');
  }

  sql(_query: unknown): never {
    throw new StoreError('unsupported', 'this store knows no SQL');
  }

  /** Sleeps; blocks the thread. */
  sleep(milliseconds: number): number {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, Math.max(0, Number(milliseconds)));
    return 0;
  }

  setloglevel(..._args: unknown[]): string {
    return '';
  }

  logmessage(message: string, title = ''): string {
    process.stderr.write(`${title === '' ? '' : `${title}: `}${message}\n`);
    return '';
  }

  /** Returns its argument; measures the cost of a call. */
  benchmark(text = ''): string {
    return String(text);
  }

  benchmarkex(text = ''): string {
    return String(text);
  }

  /** Sets the error message for a feature that is not supported; returns `''`. @internal */
  unsupported(what: string): string | null {
    return this.attempt(undefined, () => {
      throw new StoreError('unsupported', `this store knows no ${what}`);
    });
  }

  /** Operations on a global; the name may start with `^`. @internal */
  node(global: string): Operations {
    return new Operations(this, [withoutCaret(global)]);
  }

  /** Runs an operation at once, or later if there is a callback. @internal */
  attempt<T>(callback: Callback | undefined, work: () => T, undo?: () => void): T | null {
    if (callback !== undefined) {
      queueMicrotask(() => {
        const data = this.attempt(undefined, work, undo);
        callback(this.#error !== '', data);
      });
      return null;
    }
    this.#error = '';
    try {
      return work();
    } catch (error) {
      this.#failed(error);
      undo?.();
      return '' as T;
    }
  }

  /** The text of a node below a path. Like {@link attempt}, but allocates nothing on the way. @internal */
  read(path: readonly Subscript[], keys: readonly unknown[]): string {
    this.#error = '';
    try {
      const { native } = this.store;
      const end = putKeys(path, keys);
      const value = answer(native.value(end));
      return typeof value === 'string' ? value : valueText(value, () => nodeAt(this.store, path, keys));
    } catch (error) {
      this.#failed(error);
      return '';
    }
  }

  #failed(error: unknown): void {
    if (!(error instanceof StoreError)) throw error;
    this.#error = error.message;
  }
}

/** Operations on a node and its descendants, which are addressed by their keys relative to it. */
export class Operations {
  readonly #db: server;
  /** @internal */
  path: readonly Subscript[];

  constructor(db: server, path: readonly Subscript[]) {
    this.#db = db;
    this.path = path;
  }

  /** The store's node at these keys below this one. @internal */
  at(keys: readonly unknown[]): StoreNode {
    return nodeAt(this.#db.store, this.path, keys);
  }

  set(...args: any[]): string | null {
    return this.#run(args, (keys) => {
      const data = keys.pop();
      this.at(keys.map(notEmpty)).set(this.#input(data));
      return '0';
    });
  }

  get(...args: any[]): string | null {
    if (typeof args.at(-1) === 'function') return this.#run(args, (keys) => textOf(this.at(keys)));
    return this.#db.read(this.path, args);
  }

  delete(...args: any[]): string | null {
    return this.#run(args, (keys) => (this.at(keys).delete(), '0'));
  }

  defined(...args: any[]): string | null {
    return this.#run(args, (keys) => String(this.at(keys).defined()));
  }

  next(...args: any[]): string | null {
    return this.#run(args, (keys) => {
      const seed = keyText(keys.pop() ?? '');
      return this.at(keys).next(seed === '' ? undefined : seed) ?? '';
    });
  }

  previous(...args: any[]): string | null {
    return this.#run(args, (keys) => {
      const seed = keyText(keys.pop() ?? '');
      return this.at(keys).previous(seed === '' ? undefined : seed) ?? '';
    });
  }

  increment(...args: any[]): string | null {
    return this.#run(args, (keys) => {
      const by = keys.pop();
      return incremented(this.at(keys.map(notEmpty)), typeof by === 'bigint' ? by : mNumber(String(by)));
    });
  }

  lock(...args: any[]): string | null {
    return this.#run(args, (keys) => {
      const seconds = Number(keys.pop() ?? -1);
      return this.at(keys).lock(seconds < 0 || Number.isNaN(seconds) ? Infinity : seconds * 1000) ? '1' : '0';
    });
  }

  unlock(...args: any[]): string | null {
    return this.#run(args, (keys) => (this.at(keys).unlock() ? '1' : '0'));
  }

  #run<T>(args: unknown[], work: (keys: unknown[]) => T): T | null {
    const keys = [...args];
    const callback = typeof keys.at(-1) === 'function' ? (keys.pop() as Callback) : undefined;
    return this.#db.attempt(callback, () => work(keys));
  }

  /** Numbers and booleans keep their type in the store; this interface reads them as text. */
  #input(data: unknown): unknown {
    if (data instanceof Uint8Array) return Buffer.from(data).toString(this.#db.charset().startsWith('utf') ? 'utf8' : 'latin1');
    if (typeof data === 'number') return Number.isFinite(data) ? data : String(data);
    if (typeof data === 'string' || typeof data === 'bigint' || typeof data === 'boolean') return data;
    throw new StoreError('not_json', `cannot store ${data === null ? 'null' : typeof data} as a text`);
  }
}

/** A node's own value as text; `''` if it has none. */
export function textOf(node: StoreNode): string {
  return valueText(node.ownValue, () => node);
}

function valueText(value: unknown, find: () => StoreNode): string {
  if (typeof value === 'string') return value;
  if (value === undefined || (typeof value === 'object' && value !== null)) return '';
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) {
    // The number may have more digits than JavaScript can represent; only a node without children has it as text of its own.
    const node = find();
    if (node.defined() === 1) return node.json ?? '';
  }
  return String(value);
}

function nodeAt(store: Store, path: readonly Subscript[], keys: readonly unknown[]): StoreNode {
  const [global, ...rest] = path;
  return store.node(global as string, ...rest, ...keys.map(keyText));
}

/** Writes the path of a node, as {@link nodeAt} finds it, to the addon's memory; returns its end. */
function putKeys(path: readonly Subscript[], keys: readonly unknown[]): number {
  checkGlobal(path[0]);
  let end = putPath(path);
  for (let index = 0; index < keys.length; index++) end = putSubscript(end, keyText(keys[index]));
  return end;
}

/** Adds as M does: text counts as the number at its start, or as 0 if it has none. */
export function incremented(node: StoreNode, by: number | bigint): string {
  return node.store.transaction(() => {
    const value = node.ownValue as unknown;
    if (value !== undefined && typeof value !== 'number') node.set(mNumber(typeof value === 'object' ? '' : String(value)));
    return String(typeof by === 'bigint' ? node.increment(by) : node.increment(by));
  });
}

function mNumber(text: string): number {
  return Number(NUMBER.exec(text)?.[0] ?? 0);
}

/** The name without M's leading `^`. @throws if it is not a valid name. */
export function globalName(name: unknown): string {
  return withoutCaret(checkGlobal(name));
}

/** An invalid name is returned unchanged; the operation will reject it. */
function withoutCaret(name: string): string {
  return typeof name === 'string' && name.startsWith('^') ? name.slice(1) : name;
}

/** A key as text. */
export function keyText(key: unknown): string {
  if (typeof key === 'string') return key;
  if (typeof key === 'number' || typeof key === 'bigint' || typeof key === 'boolean') return String(key);
  throw new StoreError('key', `a key is a string or a number, not ${key === null ? 'null' : typeof key}`);
}

function notEmpty(key: unknown): unknown {
  if (key === '') throw new StoreError('key', 'a key cannot be empty');
  return key;
}
