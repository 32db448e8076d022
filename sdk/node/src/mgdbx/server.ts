import { StoreError } from '../store/error.js';
import { noteLevel } from '../store/begun.js';
import { answer, type NativeStore } from '../store/native.js';
import { open as openStore, store as provided } from '../store/opened.js';
import { checkGlobal, type Store } from '../store/store.js';
import { type StoreNode } from '../store/node.js';
import { putPath, putSubscript, type Subscript } from '../store/path.js';
import { VERSION } from '../version.js';

/** How a database is opened. What names another database (`path`, `host`, `env_vars`, ...) is accepted and means nothing. */
export interface ServerOptions {
  /** `Forebay` opens the store in the folder `path`; any other type is the store of the server that runs this worker. */
  type?: string | undefined;
  path?: string | undefined;
  /** A store that is open already. */
  store?: Store | undefined;
  /** Seconds; kept, and of no use to a database in this process. */
  timeout?: number | undefined;
  [name: string]: unknown;
}

/** Called with whether there was an error, and with the result. */
export type Callback = (error: boolean, data: any) => void;

/** What a key of a node may be. All keys are texts: `1` and `'1'` are the same. */
export type Key = string | number | bigint;

/** Most characters of a text that M takes for a number when it counts with it. */
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/;

/**
 * A connection of mg-dbx to the store. Nothing throws: what fails gives `''`, and {@link server.geterrormessage} says why. A
 * function as last argument makes an operation call it with the result, once the running code has ended.
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
      // Whether there is a store is told here, not at the first operation.
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

  /** The store's folder; there is no other to change to. */
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
   * Begins a transaction, in which all operations are until it ends. Give back control only after that: others wait to write. One that
   * is open when a request has been handled is rolled back, and the request answered with 500.
   */
  tstart(): string {
    return this.#bracket((native) => native.begin(0));
  }

  /** How many transactions within each other are open. */
  tlevel(): string {
    return this.attempt(undefined, () => String(this.store.native.level())) as string;
  }

  tcommit(): string {
    return this.#bracket((native) => native.commit(-1));
  }

  trollback(): string {
    return this.#bracket((native) => {
      // As in M, a rollback undoes all transactions that are open.
      do native.rollBack();
      while (native.level() > 0);
    });
  }

  /** Begins or ends a transaction. */
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

  /** There are no routines of M here. */
  function(..._args: unknown[]): string | null {
    return this.unsupported('functions of M');
  }

  classmethod(..._args: unknown[]): string | null {
    return this.unsupported('classes of InterSystems');
  }

  sql(_query: unknown): never {
    throw new StoreError('unsupported', 'this store knows no SQL');
  }

  /** Blocks this thread. */
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

  /** Gives back what it is given: the cost of a call. */
  benchmark(text = ''): string {
    return String(text);
  }

  benchmarkex(text = ''): string {
    return String(text);
  }

  /** What is not here: an empty result, and a message that says so. @internal */
  unsupported(what: string): string | null {
    return this.attempt(undefined, () => {
      throw new StoreError('unsupported', `this store knows no ${what}`);
    });
  }

  /** The operations on a global, which may be named with a `^`. @internal */
  node(global: string): Operations {
    return new Operations(this, [withoutCaret(global)]);
  }

  /** Runs an operation, or has it run later when there is a callback. @internal */
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

  /** The text at a node below a path: what {@link attempt} is for all else, with nothing made on the way. @internal */
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

/** What can be done with a node and those below it, each with the keys that lead there from it. @internal */
export class Operations {
  readonly #db: server;
  readonly path: readonly Subscript[];

  constructor(db: server, path: readonly Subscript[]) {
    this.#db = db;
    this.path = path;
  }

  /** The store's node below this one by these keys. */
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
    return this.#run(args, (keys) => (this.at(keys).kill(), '0'));
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

  /** Numbers and booleans keep their type in the store, and are read as texts here. */
  #input(data: unknown): unknown {
    if (data instanceof Uint8Array) return Buffer.from(data).toString(this.#db.charset().startsWith('utf') ? 'utf8' : 'latin1');
    if (typeof data === 'number') return Number.isFinite(data) ? data : String(data);
    if (typeof data === 'string' || typeof data === 'bigint' || typeof data === 'boolean') return data;
    throw new StoreError('not_json', `cannot store ${data === null ? 'null' : typeof data} as a text`);
  }
}

/** A node's own value as a text, `''` when it has none. */
export function textOf(node: StoreNode): string {
  return valueText(node.ownValue, () => node);
}

function valueText(value: unknown, find: () => StoreNode): string {
  if (typeof value === 'string') return value;
  if (value === undefined || (typeof value === 'object' && value !== null)) return '';
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) {
    // It may have more digits than JavaScript holds, but only a node without children has them in a text of its own.
    const node = find();
    if (node.defined() === 1) return node.json ?? '';
  }
  return String(value);
}

function nodeAt(store: Store, path: readonly Subscript[], keys: readonly unknown[]): StoreNode {
  const [global, ...rest] = path;
  return store.node(global as string, ...rest, ...keys.map(keyText));
}

/** Writes the path of a node for the addon, as that of {@link nodeAt}; gives its end. */
function putKeys(path: readonly Subscript[], keys: readonly unknown[]): number {
  checkGlobal(path[0]);
  let end = putPath(path);
  for (let index = 0; index < keys.length; index++) end = putSubscript(end, keyText(keys[index]));
  return end;
}

/** Adds as M does: texts count as the number they begin with, and what begins with none as 0. */
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

/** The name without the `^` that M writes before it. Throws when it is none. */
export function globalName(name: unknown): string {
  return withoutCaret(checkGlobal(name));
}

/** What is no name stays as it is, for the operation to refuse. */
function withoutCaret(name: string): string {
  return typeof name === 'string' && name.startsWith('^') ? name.slice(1) : name;
}

/** A key as text, as all keys travel. */
export function keyText(key: unknown): string {
  if (typeof key === 'string') return key;
  if (typeof key === 'number' || typeof key === 'bigint' || typeof key === 'boolean') return String(key);
  throw new StoreError('key', `a key is a string or a number, not ${key === null ? 'null' : typeof key}`);
}

function notEmpty(key: unknown): unknown {
  if (key === '') throw new StoreError('key', 'a key cannot be empty');
  return key;
}
