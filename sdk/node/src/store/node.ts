import type { Bounds } from './bounds.js';
import { StoreError } from './error.js';
import { area } from './addon.js';
import { answer, type NativeStore } from './native.js';
import { CLOBBERED, putJson, takeLong } from './json.js';
import { appendPath, checkText, putPath, putSubscript, subscriptText, type Subscript } from './path.js';
import type { Store } from './store.js';

/** What comes back from a store: a value of JSON. */
export type JsonValue = null | boolean | number | string | JsonValue[] | { [name: string]: JsonValue };

/**
 * Which children, in which order. Bounds are subscripts that need not exist; numbers come before texts.
 */
export interface Range extends Bounds<Subscript> {
  /** Only texts that begin so. Subscripts that are numbers are no texts: `'2'` finds `'2024-01'`, not `20`. */
  prefix?: string | undefined;
}

/** Children are asked for in pages, which grow from the first to the second size. */
const PAGE_FIRST = 32;
const PAGE_MAX = 1024;
const REVERSE = 1;
const WITH_VALUES = 2;
/** Longest text that {@link StoreNode.json} writes through the shared memory. */
const SHORT_JSON = 8192;

/**
 * A place in the tree: a global's name and any number of subscripts. It need not exist, and costs nothing until it is asked.
 *
 * ```js
 * const person = store.node('Person', 'data', 7);
 * person.set({ firstName: 'Ada', tags: ['x', 'y'] });
 * person.get('firstName');            // 'Ada'
 * person.at('tags', 0).value;         // 'x'
 * for (const member of person) console.log(member.key, member.value);
 * ```
 *
 * Reads are of the latest commit of any process, and inside a transaction of what it has made so far. Each write outside
 * a transaction is one of its own.
 */
export class StoreNode {
  /** The store in which this is. */
  readonly store: Store;
  /** The global's name and the subscripts. */
  readonly path: readonly Subscript[];

  /** @internal */
  constructor(store: Store, path: readonly Subscript[]) {
    this.store = store;
    this.path = path;
  }

  /** The name of the global. */
  get global(): string {
    return this.path[0] as string;
  }

  /** The last subscript as text; the name at the root of a global. */
  get key(): string {
    return subscriptText(this.path[this.path.length - 1]!);
  }

  /** The node above, `undefined` at the root of a global. */
  get parent(): StoreNode | undefined {
    return this.path.length > 1 ? new StoreNode(this.store, this.path.slice(0, -1)) : undefined;
  }

  /** The node below by these subscripts. */
  at(...subscripts: Subscript[]): StoreNode {
    return new StoreNode(this.store, [...this.path, ...subscripts]);
  }

  /**
   * What was set at the node, or below it by these subscripts: the node's own value where it has one, else the document of its
   * children; `undefined` when it does not exist.
   */
  get<T = any>(...subscripts: Subscript[]): T | undefined {
    const native = this.store.native;
    let path = putPath(this.path);
    for (let index = 0; index < subscripts.length; index++) path = putSubscript(path, subscripts[index]!);
    return answer(native.get(path)) as T | undefined;
  }

  /**
   * Gives the node a value, or the node below it by the subscripts before the value. A string, number, bigint, boolean or null
   * leaves its children as they are; an object or array replaces all below.
   *
   * What JSON cannot say is refused (`not_json`), but for members that are `undefined`, which are left out, and objects with
   * `toJSON`, such as dates. A bigint is written as a number with all its digits.
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

  /** The node's own value, `undefined` where it has only children. */
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
   * The whole subtree as one value: objects and arrays as they were written, members in the order of subscripts; `undefined` when
   * the node does not exist. The value of a node that has children as well is not part of it. Setting it replaces the subtree.
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
   * The subtree as canonical JSON text, in which numbers have all the digits they were written with. Setting it replaces the
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

  /** Lays a document over the subtree: its values replace those at the same place, all others stay. */
  layOver(document: unknown): void {
    this.#write('layOver', document);
  }

  /** Applies a JSON Merge Patch (RFC 7396): members that are `null` are removed, objects are gone into, all else replaces. */
  patch(patch: unknown): void {
    this.#write('patch', patch);
  }

  /**
   * Has the node end by itself at a time, with all below it; `undefined` takes that back, as writing the whole node does. It is gone
   * within about a second of the time, while the server or a program without one has the store open.
   *
   * @returns whether the node exists.
   */
  expire(at: Date | number | undefined): boolean {
    const time = at === undefined ? -1 : Number(at);
    if (Number.isNaN(time)) throw new StoreError('unsupported', `${String(at)} is no time`);
    return this.store.native.expire(putPath(this.path), at === undefined ? -1 : Math.max(0, time));
  }

  /** When the node ends by itself. */
  get expires(): Date | undefined {
    const at = this.store.native.expires(putPath(this.path));
    return at === undefined ? undefined : new Date(at);
  }

  /** 0 when there is nothing, 1 for a value, 10 for children, 11 for both: M's `$DATA`. */
  defined(): 0 | 1 | 10 | 11 {
    return this.store.native.defined(putPath(this.path));
  }

  /** Whether the node has a value or children. */
  get exists(): boolean {
    return this.defined() !== 0;
  }

  /** Whether the node has a value of its own: anything but children. `{}` and `[]` are values. */
  get hasValue(): boolean {
    return this.defined() % 10 === 1;
  }

  /** Whether the node has children. */
  get hasChildren(): boolean {
    return this.defined() >= 10;
  }

  /** Whether the node is an array, also an empty one. */
  get isArray(): boolean {
    return this.store.native.isArray(putPath(this.path));
  }

  /** Removes the subtree; says whether there was one. Nodes above that were there only for it go with it. */
  kill(): boolean {
    return this.store.native.kill(putPath(this.path));
  }

  /**
   * Adds to the node's value, 0 where there is none, and gives the sum: one step that no other process comes between. Sums are
   * decimal and exact (0.1 + 0.2 is 0.3); those of bigints come back as bigint.
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

  /** Copies another subtree over this one: its values replace those at the same place, all others stay. */
  merge(from: StoreNode): void {
    if (from.store !== this.store) throw new StoreError('unsupported', 'cannot merge from another store');
    const native = this.store.native;
    const path = putPath(this.path);
    native.merge(path, appendPath(path, from.path));
  }

  /**
   * Locks the node for this thread: others who lock it, or a node above or below, wait. A lock says nothing about the data, to
   * which all have access as before. It may be taken several times over, and ends with the process, however that ends.
   *
   * @param patience Milliseconds to wait while others have it, blocking this thread; for ever when left out.
   * @returns whether it was got.
   */
  lock(patience = Infinity): boolean {
    if (typeof patience !== 'number' || Number.isNaN(patience)) throw new StoreError('unsupported', `cannot wait for ${String(patience)}`);
    return this.store.native.lock(putPath(this.path), patience === Infinity ? -1 : Math.max(0, patience));
  }

  /** Takes back one {@link lock}; says whether there was one. */
  unlock(): boolean {
    return this.store.native.unlock(putPath(this.path));
  }

  /** The subscript of the first child after this one, which need not exist; without it, of the first child. */
  next(after?: Subscript): string | undefined {
    const native = this.store.native;
    const path = putPath(this.path);
    return native.next(path, after === undefined ? path : putSubscript(path, after));
  }

  /** The subscript of the last child before this one, which need not exist; without it, of the last child. */
  previous(before?: Subscript): string | undefined {
    const native = this.store.native;
    const path = putPath(this.path);
    return native.previous(path, before === undefined ? path : putSubscript(path, before));
  }

  /**
   * The children, in the order of subscripts. They are read in pages: what others write meanwhile may or may not be seen, each
   * child at most once. Inside `snapshot` or `transaction` all are of one state.
   */
  *children(range?: Range): Generator<StoreNode, void, void> {
    for (const key of this.keys(range)) yield this.at(key);
  }

  /** {@link children} without a range. */
  [Symbol.iterator](): Generator<StoreNode, void, void> {
    return this.children();
  }

  /** The children's subscripts as texts, as `Object.keys` gives them. */
  *keys(range: Range = {}): Generator<string, void, void> {
    for (const page of this.#pages(range, 0)) yield* page as string[];
  }

  /** The children's subscripts, each with what {@link get} gives there. */
  *entries<T = any>(range: Range = {}): Generator<[key: string, value: T], void, void> {
    for (const page of this.#pages(range, WITH_VALUES)) {
      for (let index = 0; index < page.length; index += 2) yield [page[index] as string, parsed(page[index + 1]) as T];
    }
  }

  /** What {@link get} gives at each of the children. */
  *values<T = any>(range: Range = {}): Generator<T, void, void> {
    for (const page of this.#pages(range, WITH_VALUES)) {
      for (let index = 1; index < page.length; index += 2) yield parsed(page[index]) as T;
    }
  }

  /**
   * Every node of the subtree that has a value, depth first: the subscripts that lead there from here, and the value. Objects and
   * arrays are taken apart down to their last member; only `{}` and `[]` are values.
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

  /** As M writes it: `^Person("data",7)`. */
  toString(): string {
    const steps = this.path.slice(1).map((step) => (typeof step === 'string' ? JSON.stringify(step) : subscriptText(step)));
    return `^${this.global}${steps.length > 0 ? `(${steps.join(',')})` : ''}`;
  }

  /** What `console.log(node)` shows. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return `StoreNode ${this.toString()}`;
  }

  /** Writes the path of this node and the first of further steps. */
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

/** A value of a page. */
function parsed(value: unknown): unknown {
  return Array.isArray(value) ? JSON.parse(value[0] as string) : value;
}
