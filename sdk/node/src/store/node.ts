import type { Bounds } from './bounds.js';
import { StoreError } from './error.js';
import { area } from './addon.js';
import { answer, type NativeStore } from './native.js';
import { CLOBBERED, putJson, takeLong } from './json.js';
import { appendPath, checkText, putPath, putSubscript, subscriptText, type Subscript } from './path.js';
import type { Store } from './store.js';

/** A value read from a store: any JSON value. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };

/**
 * Selects children and their order. Bounds are subscripts that need not exist; numbers sort before texts.
 */
export interface Range extends Bounds<Subscript> {
  /** Only text subscripts with this prefix. Numbers do not count as text: `'2'` matches `'2024-01'`, but not `20`. */
  prefix?: string | undefined;
}

/** Children are read in pages, which grow from the first size to the second. */
const PAGE_FIRST = 32;
const PAGE_MAX = 1024;
const REVERSE = 1;
const WITH_VALUES = 2;
/** Longest text that {@link StoreNode.json} passes through the shared memory. */
const SHORT_JSON = 8192;

/**
 * A location in the tree: the name of a global and any number of subscripts. It need not exist; creating the object does not access the
 * store.
 *
 * ```js
 * const person = store.node('Person', 'data', 7);
 * person.set({ firstName: 'Ada', tags: ['x', 'y'] });
 * person.get('firstName');            // 'Ada'
 * person.at('tags', 0).value;         // 'x'
 * for (const member of person) console.log(member.key, member.value);
 * ```
 *
 * Reads see the latest commit of any process, and inside a transaction its own writes. Each write outside of a
 * transaction is a transaction of its own.
 */
export class StoreNode {
  /** The store that contains the node. */
  readonly store: Store;
  /** The name of the global, then the subscripts. */
  readonly path: readonly Subscript[];

  /** @internal */
  constructor(store: Store, path: readonly Subscript[]) {
    this.store = store;
    this.path = path;
  }

  get global(): string {
    return this.path[0] as string;
  }

  /** The last subscript as text; for the root of a global, its name. */
  get key(): string {
    return subscriptText(this.path[this.path.length - 1]!);
  }

  /** The parent node; `undefined` for the root of a global. */
  get parent(): StoreNode | undefined {
    return this.path.length > 1 ? new StoreNode(this.store, this.path.slice(0, -1)) : undefined;
  }

  /** The descendant at these subscripts. */
  at(...subscripts: Subscript[]): StoreNode {
    return new StoreNode(this.store, [...this.path, ...subscripts]);
  }

  /**
   * The value of the node, or of a descendant at these subscripts: its own value if it has one, otherwise the document of its
   * children; `undefined` if it does not exist.
   */
  get<T = any>(...subscripts: Subscript[]): T | undefined {
    const native = this.store.native;
    let path = putPath(this.path);
    for (let index = 0; index < subscripts.length; index++) path = putSubscript(path, subscripts[index]!);
    return answer(native.get(path)) as T | undefined;
  }

  /**
   * Sets the value of the node, or of a descendant at the subscripts in front of the value. A string, number, bigint, boolean or null
   * leaves the children unchanged; an object or array replaces the whole subtree.
   *
   * Values that JSON cannot represent are rejected (`not_json`), except that members that are `undefined` are left out and objects with
   * `toJSON`, such as dates, are converted. A bigint is written as a number with all its digits.
   */
  set(...subscriptsAndValue: [...subscripts: Subscript[], value: unknown]): void {
    const native = this.store.native;
    const last = subscriptsAndValue.length - 1;
    if (last < 0) throw new StoreError('not_json', 'cannot store undefined');
    let path = this.#putBelow(subscriptsAndValue, last);
    const end = putJson(path, subscriptsAndValue[last]);
    if (end > 0) {
      native.set(path, end);
      return;
    }
    if (end === CLOBBERED) path = this.#putBelow(subscriptsAndValue, last);
    native.set(path, 0, takeLong());
  }

  /** The node's own value, `undefined` if it has only children. */
  get ownValue(): any {
    const native = this.store.native;
    return answer(native.value(putPath(this.path)));
  }

  /** {@link get} and {@link set} as a property. */
  get value(): any {
    return this.get();
  }

  set value(value: unknown) {
    this.set(value);
  }

  /**
   * The whole subtree as one value: objects and arrays as they were written, members in the order of subscripts; `undefined` if the
   * node does not exist. If a node has both children and a value, the value is not included. Setting it replaces the subtree.
   */
  get document(): any {
    const native = this.store.native;
    const text = native.document(putPath(this.path));
    return text === undefined ? undefined : JSON.parse(text);
  }

  set document(document: unknown) {
    this.#write('put', document);
  }

  /**
   * The subtree as canonical JSON text, in which numbers keep all the digits they were written with. Setting it replaces the
   * subtree.
   */
  get json(): string | undefined {
    return this.store.native.document(putPath(this.path));
  }

  set json(text: string | undefined) {
    if (typeof text !== 'string') throw new StoreError('json', `JSON text is a string, not ${typeof text}`);
    checkText(text);
    const native = this.store.native;
    const path = putPath(this.path);
    if (text.length > SHORT_JSON || path + text.length * 3 > area.length) native.put(path, 0, text);
    else native.put(path, path + area.utf8Write(text, path, area.length - path));
  }

  /** Merges a document into the subtree: its values replace those at the same subscripts, all others stay. */
  layOver(document: unknown): void {
    this.#write('layOver', document);
  }

  /** Applies a JSON Merge Patch (RFC 7396): `null` removes a member, objects are merged recursively, anything else replaces. */
  patch(patch: unknown): void {
    this.#write('patch', patch);
  }

  /**
   * Sets the time at which the node and its subtree expire; `undefined` cancels that, as does overwriting the whole node. The node
   * disappears within about a second of that time, while the server, or a program without one, has the store open.
   *
   * @returns whether the node exists.
   */
  expire(at: Date | number | undefined): boolean {
    const time = at === undefined ? -1 : Number(at);
    if (Number.isNaN(time)) throw new StoreError('unsupported', `${String(at)} is no time`);
    return this.store.native.expire(putPath(this.path), at === undefined ? -1 : Math.max(0, time));
  }

  /** When the node expires; `undefined` if never. */
  get expires(): Date | undefined {
    const at = this.store.native.expires(putPath(this.path));
    return at === undefined ? undefined : new Date(at);
  }

  /** 0: no data, 1: a value, 10: children, 11: both. M's `$DATA`. */
  defined(): 0 | 1 | 10 | 11 {
    return this.store.native.defined(putPath(this.path));
  }

  /** Whether the node has a value or children. */
  get exists(): boolean {
    return this.defined() !== 0;
  }

  /** Whether the node has its own value, which may be `{}` or `[]`. */
  get hasValue(): boolean {
    return this.defined() % 10 === 1;
  }

  /** Whether the node has children. */
  get hasChildren(): boolean {
    return this.defined() >= 10;
  }

  /** Whether the node is an array, even an empty one. */
  get isArray(): boolean {
    return this.store.native.isArray(putPath(this.path));
  }

  /** Deletes the subtree; returns whether it existed. Parents that existed only because of it disappear too. M's `KILL`. */
  delete(): boolean {
    return this.store.native.kill(putPath(this.path));
  }

  /**
   * Adds to the node's value (0 if it has none) and returns the sum; atomic across processes. Sums are decimal and exact
   * (0.1 + 0.2 is 0.3); a bigint argument yields a bigint.
   */
  increment(by?: number): number;
  increment(by: bigint): bigint;
  increment(by: number | bigint = 1): number | bigint {
    if (typeof by !== 'number' && typeof by !== 'bigint') {
      throw new StoreError('not_a_number', `cannot increment by ${by === null ? 'null' : typeof by}`);
    }
    const native = this.store.native;
    const path = putPath(this.path);
    const sum = native.increment(path, putJson(path, by));
    return typeof by === 'bigint' && /^-?\d+$/.test(sum) ? BigInt(sum) : Number(sum);
  }

  /** Merges another subtree into this one: its values replace those at the same subscripts, all others stay. */
  merge(from: StoreNode): void {
    if (from.store !== this.store) throw new StoreError('unsupported', 'cannot merge from another store');
    const native = this.store.native;
    const path = putPath(this.path);
    native.merge(path, appendPath(path, from.path));
  }

  /**
   * Locks the node for this thread: others that lock it, or a node above or below it, wait. The lock is advisory: it does not affect reads
   * and writes. It is reentrant, and ends with the process, however that ends.
   *
   * @param patience Milliseconds to wait for the lock, blocking this thread; without limit by default.
   * @returns whether the lock was acquired.
   */
  lock(patience = Infinity): boolean {
    if (typeof patience !== 'number' || Number.isNaN(patience)) throw new StoreError('unsupported', `cannot wait for ${String(patience)}`);
    return this.store.native.lock(putPath(this.path), patience === Infinity ? -1 : Math.max(0, patience));
  }

  /** Releases one {@link lock}; returns whether there was one. */
  unlock(): boolean {
    return this.store.native.unlock(putPath(this.path));
  }

  /** The subscript of the first child after the given one, which need not exist; without an argument, of the first child. */
  next(after?: Subscript): string | undefined {
    const native = this.store.native;
    const path = putPath(this.path);
    return native.next(path, after === undefined ? path : putSubscript(path, after));
  }

  /** The subscript of the last child before the given one, which need not exist; without an argument, of the last child. */
  previous(before?: Subscript): string | undefined {
    const native = this.store.native;
    const path = putPath(this.path);
    return native.previous(path, before === undefined ? path : putSubscript(path, before));
  }

  /**
   * The children, in the order of subscripts. They are read in pages: concurrent writes may or may not be visible, but each child
   * appears at most once. Inside `snapshot` or `transaction`, all come from one state.
   */
  *children(range?: Range): Generator<StoreNode, void, void> {
    for (const key of this.keys(range)) yield this.at(key);
  }

  /** {@link children} without a range. */
  [Symbol.iterator](): Generator<StoreNode, void, void> {
    return this.children();
  }

  /** The children's subscripts as text, like `Object.keys`. */
  *keys(range: Range = {}): Generator<string, void, void> {
    for (const page of this.#pages(range, 0)) yield* page as string[];
  }

  /** The children's subscripts and values, as from {@link get}. */
  *entries<T = any>(range: Range = {}): Generator<[key: string, value: T], void, void> {
    for (const page of this.#pages(range, WITH_VALUES)) {
      for (let index = 0; index < page.length; index += 2) yield [page[index] as string, parsed(page[index + 1]) as T];
    }
  }

  /** The children's values, as from {@link get}. */
  *values<T = any>(range: Range = {}): Generator<T, void, void> {
    for (const page of this.#pages(range, WITH_VALUES)) {
      for (let index = 1; index < page.length; index += 2) yield parsed(page[index]) as T;
    }
  }

  /**
   * All nodes of the subtree that have a value, depth first: the subscripts relative to this node, and the value. Objects and
   * arrays are visited member by member; only `{}` and `[]` appear as values.
   */
  *leaves(): Generator<[subscripts: string[], value: JsonValue], void, void> {
    let after: string[] | undefined;
    for (let limit = PAGE_FIRST; ; limit = Math.min(limit * 4, PAGE_MAX)) {
      const native: NativeStore = this.store.native;
      const path = putPath(this.path);
      const seed: number = after === undefined ? path : appendPath(appendPath(path, this.path), after);
      const page: unknown[] = native.values(path, seed, limit);
      const more = page.length === limit * 2 || native.more();
      for (let index = 0; index < page.length; index += 2) {
        yield [page[index] as string[], parsed(page[index + 1]) as JsonValue];
      }
      if (!more) return;
      after = page[page.length - 2] as string[];
    }
  }

  /** The node in M's notation: `^Person("data",7)`. */
  toString(): string {
    const steps = this.path.slice(1).map((step) => (typeof step === 'string' ? JSON.stringify(step) : subscriptText(step)));
    return `^${this.global}${steps.length > 0 ? `(${steps.join(',')})` : ''}`;
  }

  /** The text that `console.log(node)` prints. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `StoreNode ${this.toString()}`;
  }

  /** Writes the path of this node, followed by the first `count` of the given subscripts. */
  #putBelow(steps: readonly unknown[], count: number): number {
    let path = putPath(this.path);
    for (let index = 0; index < count; index++) path = putSubscript(path, steps[index] as Subscript);
    return path;
  }

  #write(operation: 'put' | 'layOver' | 'patch', value: unknown): void {
    const native = this.store.native;
    const path = putPath(this.path);
    const end = putJson(path, value);
    if (end > 0) native[operation](path, end);
    else native[operation](end === CLOBBERED ? putPath(this.path) : path, 0, takeLong());
  }

  *#pages(range: Range, flags: number): Generator<unknown[], void, void> {
    const reverse = range.reverse === true;
    const width = flags === WITH_VALUES ? 2 : 1;
    let { after, before } = range;
    let left = range.limit ?? Infinity;
    for (let size = PAGE_FIRST; left > 0; size = Math.min(size * 4, PAGE_MAX)) {
      const limit = Math.min(size, left);
      const native = this.store.native;
      const path = putPath(this.path);
      const ends = [range.from, after, range.to, before, range.prefix === '' ? undefined : range.prefix];
      let end = path;
      const [from, afterEnd, to, beforeEnd, prefix] = ends.map((bound) => {
        if (bound !== undefined) end = putSubscript(end, bound);
        return end;
      }) as [number, number, number, number, number];
      const page = native.children(path, from, afterEnd, to, beforeEnd, prefix, (reverse ? REVERSE : 0) | flags, limit);
      const more = page.length === limit * width || native.more();
      yield page;
      if (!more) return;
      const last = page[page.length - width] as string;
      if (reverse) before = last;
      else after = last;
      left -= page.length / width;
    }
  }
}

/** Decodes a value of a page. */
function parsed(value: unknown): unknown {
  return Array.isArray(value) ? JSON.parse(value[0] as string) : value;
}
