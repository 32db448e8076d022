import { StoreError } from '../store/error.js';
import type { StoreNode } from '../store/node.js';
import { globalName, keyText, textOf, type Key, type server } from './server.js';

/** The start of a cursor. */
export interface CursorQuery {
  /** The global; in a list of globals, the name to start after. */
  global?: string | undefined;
  /** Keys of the node to start after; the last one may be `''`. */
  key?: Key[] | undefined;
  [name: string]: unknown;
}

/** Order and output of a cursor. */
export interface CursorOptions {
  /** Visit all nodes with data, not only the children of one node. */
  multilevel?: boolean | undefined;
  /** Return the data as well. */
  getdata?: boolean | undefined;
  /** `url` returns `key1=..&key2=..&data=..`. */
  format?: string | undefined;
  /** List the names of globals. */
  globaldirectory?: boolean | undefined;
}

/** One result of a cursor, before it is formatted. */
interface CursorEntry {
  keys: string[];
  data: string | undefined;
}

/** Iterates over children, over all nodes with data, or over globals; `null` marks the end. */
export class mcursor {
  readonly #db: server;
  #global = '';
  #keys: string[] = [];
  #options: CursorOptions = {};

  constructor(db: server, query: CursorQuery, options: CursorOptions = {}) {
    this.#db = db;
    this.reset(query, options);
  }

  /** Restarts the cursor with a new query. */
  reset(query: CursorQuery, options: CursorOptions = this.#options): void {
    if (query['sql'] !== undefined) throw new StoreError('unsupported', 'this store knows no SQL');
    this.#options = options;
    this.#global = globalName(query.global ?? '');
    this.#keys = (query.key ?? []).map(keyText);
    if (options.multilevel !== true && options.globaldirectory !== true && this.#keys.length === 0) this.#keys = [''];
  }

  next(): any {
    return this.#step(false);
  }

  previous(): any {
    return this.#step(true);
  }

  execute(): never {
    throw new StoreError('unsupported', 'this store knows no SQL');
  }

  cleanup(): string {
    return '';
  }

  #step(reverse: boolean): unknown {
    const found = this.#db.attempt<unknown>(undefined, () => {
      if (this.#options.globaldirectory === true) return this.#nextGlobal(reverse);
      const step = this.#options.multilevel === true ? this.#nextNode(reverse) : this.#nextChild(reverse);
      if (step === null) return null;
      this.#keys = step.keys;
      return this.#format(step);
    });
    return found === '' ? null : found;
  }

  #format({ keys, data }: CursorEntry): unknown {
    const { multilevel, getdata, format } = this.#options;
    if (format === 'url' && (multilevel === true || getdata === true)) {
      const parts = keys.map((key, index) => `key${index + 1}=${encodeURIComponent(key)}`);
      return [...parts, ...(getdata === true ? [`data=${encodeURIComponent(data ?? '')}`] : [])].join('&');
    }
    if (multilevel === true) return getdata === true ? { key: keys, data: data ?? '' } : { key: keys };
    const key = keys.at(-1)!;
    return getdata === true ? { key, data: data ?? '' } : key;
  }

  #nextGlobal(reverse: boolean): string | null {
    const { store } = this.#db;
    let found: string | undefined;
    if (reverse) {
      for (const name of store.globals()) {
        if (this.#global !== '' && name >= this.#global) break;
        found = name;
      }
    } else {
      for (const name of store.globals(this.#global)) {
        if (name === this.#global) continue;
        found = name;
        break;
      }
    }
    if (found === undefined) return null;
    this.#global = found;
    return `^${found}`;
  }

  #nextChild(reverse: boolean): CursorEntry | null {
    const keys = this.#keys.slice(0, -1);
    const seed = this.#keys.at(-1)!;
    const node = this.#node(keys);
    const key = reverse ? node.previous(seed === '' ? undefined : seed) : node.next(seed === '' ? undefined : seed);
    if (key === undefined) return null;
    return { keys: [...keys, key], data: this.#options.getdata === true ? textOf(node.at(key)) : undefined };
  }

  /** The next node with data in tree order: M's `$QUERY`. */
  #nextNode(reverse: boolean): CursorEntry | null {
    const keys = this.#keys.at(-1) === '' ? this.#keys.slice(0, -1) : this.#keys;
    const beginning = keys.length < this.#keys.length || (reverse && keys.length === 0);
    let found: string[] | null;
    if (reverse) found = beginning ? this.#last(keys) : this.#before(keys);
    else found = this.#after(keys);
    if (found === null || found.length === 0) return null;
    return { keys: found, data: textOf(this.#node(found)) };
  }

  /** The first node with data after a node: below it, then among its later siblings, then among those of its ancestors. */
  #after(keys: string[]): string[] | null {
    const below = this.#first(keys);
    if (below !== null) return below;
    for (let depth = keys.length; depth > 0; depth--) {
      const parent = keys.slice(0, depth - 1);
      const sibling = this.#node(parent).next(keys[depth - 1]!);
      if (sibling === undefined) continue;
      const siblingKeys = [...parent, sibling];
      return this.#node(siblingKeys).hasValue ? siblingKeys : this.#first(siblingKeys);
    }
    return null;
  }

  /** The last node with data before a node: below its previous sibling, that sibling itself, or the parent. */
  #before(keys: string[]): string[] | null {
    for (let depth = keys.length; depth > 0; depth--) {
      const parent = keys.slice(0, depth - 1);
      const sibling = this.#node(parent).previous(keys[depth - 1]!);
      if (sibling !== undefined) return this.#last([...parent, sibling]) ?? [...parent, sibling];
      if (parent.length > 0 && this.#node(parent).hasValue) return parent;
    }
    return null;
  }

  /** The first node with data below a node. */
  #first(keys: string[]): string[] | null {
    for (;;) {
      const child = this.#node(keys).next();
      if (child === undefined) return null;
      keys = [...keys, child];
      if (this.#node(keys).hasValue) return keys;
    }
  }

  /** The last node with data below a node. */
  #last(keys: string[]): string[] | null {
    let found: string[] | null = null;
    for (;;) {
      const child = this.#node(found ?? keys).previous();
      if (child === undefined) return found;
      found = [...(found ?? keys), child];
    }
  }

  #node(keys: readonly string[]): StoreNode {
    return this.#db.store.node(this.#global, ...keys);
  }
}
