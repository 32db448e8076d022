import { StoreError } from '../store/error.js';
import { Operations, globalName, keyText, textOf, type Callback, type Key, type server } from './server.js';

/** How child nodes are read or written. */
export interface ChildNodesOptions {
  /** Lock the node during the operation. */
  lock?: boolean | undefined;
  /** Seconds to wait for the lock; without limit if omitted. */
  locktimeout?: number | undefined;
  /** The children are array elements with their indexes as keys. */
  numerickeys?: boolean | undefined;
  /** Return the data as well. */
  getdata?: boolean | undefined;
  /** Maximum number of children; 100 by default. */
  max?: number | undefined;
  /** The first key. */
  start?: Key | undefined;
  /** The last key. */
  end?: Key | undefined;
}

const CHILDREN_MAX = 100;

/** A global, or a node in one: `new mglobal(db, 'Person', 'data')`. */
export class mglobal extends Operations {
  readonly #db: server;

  constructor(db: server, global: string, ...keys: Key[]) {
    super(db, pathOf(global, keys));
    this.#db = db;
  }

  /** `one.merge([keys,] other [, keys])` copies the subtree of the other node into this one. */
  merge(...args: any[]): string | null {
    const callback = typeof args.at(-1) === 'function' ? (args.pop() as Callback) : undefined;
    return this.#db.attempt(callback, () => {
      const at = args.findIndex((arg) => arg instanceof mglobal);
      if (at < 0) throw new StoreError('key', 'merge needs a global to merge from');
      const from = args[at] as mglobal;
      this.at(args.slice(0, at)).merge(from.at(args.slice(at + 1)));
      return '0';
    });
  }

  /** `setchildnodes([keys,] nodes, options)`; a node is `{ key, data }`, where `key` may be an array of keys, or just the data. */
  setchildnodes(...args: any[]): string | null {
    const { keys, options, callback } = this.#childArguments(args);
    const nodes = keys.pop() as unknown;
    return this.#db.attempt(callback, () => {
      if (!Array.isArray(nodes)) throw new StoreError('key', 'setchildnodes needs an array of nodes');
      return this.#locked(keys, options, () =>
        this.#db.store.transaction(() => {
          for (const [index, node] of nodes.entries()) {
            if (options.numerickeys === true) {
              if (node !== undefined) this.#written(...keys, index, node);
            } else {
              this.#written(...keys, ...(Array.isArray(node.key) ? node.key : [node.key]), node.data);
            }
          }
          return '0';
        }),
      );
    });
  }

  /** `getchildnodes([keys,] options)` returns keys, or `{ key, data }`, or with `numerickeys` the data by index. */
  getchildnodes(...args: any[]): any {
    const { keys, options, callback } = this.#childArguments(args);
    return this.#db.attempt<unknown>(callback, () =>
      this.#locked(keys, options, () =>
        this.#db.store.snapshot(() => {
          const node = this.at(keys);
          const limit = Number(options.max ?? CHILDREN_MAX);
          if (options.numerickeys === true) {
            const data: (string | undefined)[] = [];
            const end = Number(options.end ?? Infinity);
            for (let index = Number(options.start ?? 0); index <= end && data.length < limit; index++) {
              const child = node.at(index);
              const defined = child.defined();
              if (defined === 0) break;
              data.push(defined === 10 ? undefined : textOf(child));
            }
            return data;
          }
          const found = [...node.children({ from: bound(options.start), to: bound(options.end), limit })];
          if (options.getdata !== true) return found.map(({ key }) => key);
          return found.map((child) => (child.hasValue ? { key: child.key, data: textOf(child) } : { key: child.key }));
        }),
      ),
    );
  }

  /** Changes the global and keys that this object refers to. */
  reset(global: string, ...keys: Key[]): void {
    this.path = pathOf(global, keys);
  }

  /** Sets a node; throws if that fails, so that the whole transaction does. */
  #written(...args: unknown[]): void {
    if (this.set(...args) === '') throw new StoreError('key', this.#db.geterrormessage());
  }

  #childArguments(args: any[]): { keys: any[]; options: ChildNodesOptions; callback: Callback | undefined } {
    const keys = [...args];
    const callback = typeof keys.at(-1) === 'function' ? (keys.pop() as Callback) : undefined;
    const last = keys.at(-1) as unknown;
    const options = typeof last === 'object' && last !== null && !Array.isArray(last) ? (keys.pop() as ChildNodesOptions) : {};
    return { keys, options, callback };
  }

  #locked<T>(keys: readonly unknown[], options: ChildNodesOptions, work: () => T): T {
    if (options.lock !== true) return work();
    const node = this.at(keys);
    const seconds = Number(options.locktimeout ?? -1);
    if (!node.lock(seconds < 0 ? Infinity : seconds * 1000)) {
      throw new StoreError('busy', `the lock on ${String(node)} is held by another process`);
    }
    try {
      return work();
    } finally {
      node.unlock();
    }
  }
}

function pathOf(global: string, keys: readonly Key[]): string[] {
  return [globalName(global), ...keys.map(keyText)];
}

function bound(key: Key | undefined): string | undefined {
  return key === undefined || key === '' ? undefined : keyText(key);
}
