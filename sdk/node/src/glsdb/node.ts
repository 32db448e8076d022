import { incremented } from '../mgdbx/server.js';
import { StoreNode } from '../store/node.js';
import type { glsDB } from './index.js';
import { elementKey, indexOf, joinPath, keyText, splitPath, stepOf } from './keys.js';
import { proxyOf } from './proxy.js';

/** Which children to visit, and in which order. */
export interface EachOptions {
  /** `reverse` or `backwards` visits the last child first. */
  direction?: string | undefined;
  /** The first key, inclusive. */
  from?: string | number | undefined;
  /** The last key, inclusive. */
  to?: string | number | undefined;
  /** Only text keys with this prefix. */
  startsWith?: string | undefined;
}

/** How to visit leaf nodes. */
export interface LeafOptions {
  direction?: string | undefined;
  /** Pass keys and value to the callback instead of a node. */
  getdata?: boolean | undefined;
}

/** One key, or several. */
export type NodeKey = string | number | readonly (string | number)[];

/** A node of glsdb: a location in the store, whether or not data exists there. */
export class GlsNode {
  readonly #db: glsDB;
  /** The keys as passed by the caller; a member of an object may be named `[0]`. */
  readonly #given: readonly string[];
  #keys: string[] | undefined;

  constructor(db: glsDB, path: NodeKey) {
    this.#db = db;
    this.#given = Array.isArray(path) ? path.map(keyText) : splitPath(String(path));
  }

  /** The name of the global and all keys; keys of array elements have the form `[000000]`. */
  get keys(): string[] {
    return (this.#keys ??= this.#given.map((key, index) => {
      const element = index === 0 ? undefined : indexOf(key);
      return element === undefined ? key : elementKey(element, this.#db.style);
    }));
  }

  /** The corresponding node of the store. */
  get stored(): StoreNode {
    const { store } = this.#db;
    const given = this.#given;
    if (given.length > 0 && !hasElements(given)) return new StoreNode(store, given);
    const [name, ...keys] = given;
    let node = store.node(name ?? '');
    for (const key of keys) node = node.at(stepOf(node, key));
    return node;
  }

  get name(): string {
    return this.keys[0] ?? '';
  }

  get subscripts(): string[] {
    return this.keys.slice(1);
  }

  get path(): string {
    return joinPath(this.keys);
  }

  get key(): string {
    return this.keys.length > 1 ? this.keys.at(-1)! : '';
  }

  /** `'0'`: no data, `'1'`: a value, `'10'`: children, `'11'`: both. */
  get defined(): string {
    this.#emit('defined', { method: 'defined' });
    return String(this.stored.defined());
  }

  get exists(): boolean {
    this.#emit('defined', { method: 'exists' });
    return this.stored.exists;
  }

  get hasChildren(): boolean {
    this.#emit('defined', { method: 'hasChildren' });
    return this.stored.hasChildren;
  }

  /** Whether the node has a value and no children. */
  get isLeafNode(): boolean {
    this.#emit('defined', { method: 'isLeafNode' });
    return this.stored.defined() === 1;
  }

  /** Same as `isLeafNode`. */
  get hasValue(): boolean {
    this.#emit('defined', { method: 'hasValue' });
    return this.stored.defined() === 1;
  }

  get isArray(): boolean {
    return this.stored.isArray;
  }

  get isArrayMember(): boolean {
    return indexOf(this.key) !== undefined;
  }

  get parent(): GlsNode | undefined {
    return this.keys.length > 1 ? new GlsNode(this.#db, this.#given.slice(0, -1)) : undefined;
  }

  get firstChild(): GlsNode | undefined {
    this.#emit('next');
    return this.#child(this.stored.next());
  }

  get lastChild(): GlsNode | undefined {
    this.#emit('previous');
    return this.#child(this.stored.previous());
  }

  get nextSibling(): GlsNode | undefined {
    this.#emit('next');
    return this.#beside('next');
  }

  get previousSibling(): GlsNode | undefined {
    this.#emit('previous');
    return this.#beside('previous');
  }

  get childNodes(): GlsNode[] {
    const nodes: GlsNode[] = [];
    this.forEachChildNode((node) => void nodes.push(node));
    return nodes;
  }

  get children(): GlsNode[] {
    return this.childNodes;
  }

  /** The keys of the children; for an array, its elements. */
  get properties(): any[] {
    return this.isArray ? (this.document as unknown[]) : this.childNodes.map(({ key }) => key);
  }

  get leafNodes(): GlsNode[] {
    const nodes: GlsNode[] = [];
    this.forEachLeafNode((node: GlsNode) => void nodes.push(node));
    return nodes;
  }

  get length(): number {
    let length = 0;
    for (const _ of this.stored.keys()) length++;
    return length;
  }

  /** The value with its type; for a node with children, the document; `''` if there is no data. */
  get value(): any {
    this.#emit('get');
    return this.#document();
  }

  set value(value: unknown) {
    if (typeof value === 'object' && value !== null) this.document = value;
    else this.rawSet(value);
  }

  /** The value of a node without children. */
  getValue(): any {
    this.#emit('get');
    const value: unknown = this.stored.get();
    return value === undefined ? '' : value;
  }

  /** The subtree as an object or array; for a node without children, its value; `''` if there is no data. */
  get document(): any {
    this.#emit('get');
    return this.#document();
  }

  /** Same as `document`. */
  get document_q(): any {
    return this.document;
  }

  /**
   * Merges a document into the subtree, in one transaction: members that it does not have stay. An array replaces what was there;
   * otherwise elements of a longer old array would remain.
   */
  set document(document: unknown) {
    if (typeof document !== 'object' || document === null) {
      this.rawSet(document);
      return;
    }
    const plain = JSON.parse(JSON.stringify(document)) as unknown;
    this.#db.store.transaction(() => this.#write((node) => layOver(node, plain)));
  }

  /** Sets the node's value and leaves its children unchanged. */
  rawSet(value: unknown): void {
    this.#write((node) => node.set(value === undefined ? '' : value));
    this.#emit('set', { value });
  }

  /** The descendant at one key or several. */
  $(key: NodeKey): GlsNode {
    return this.getChild(key);
  }

  getChild(key: NodeKey): GlsNode {
    if (!Array.isArray(key)) return new GlsNode(this.#db, [...this.#given, keyText(key)]);
    return new GlsNode(this.#db, [...this.#given, ...key.map(keyText)]);
  }

  /** The element at an index, if this node is an array. */
  _(index: number | string): GlsNode {
    return new GlsNode(this.#db, [...this.#given, `[${index}]`]);
  }

  delete(): void {
    this.stored.delete();
    this.#emit('delete');
  }

  /** Adds to the value atomically and returns the sum as text. */
  increment(amount?: number): string {
    const by = amount || 1;
    this.#emit('increment', { by });
    return incremented(this.stored, by);
  }

  /** Copies the subtree of another node into this one. */
  import(node: GlsNode): string {
    this.stored.merge(node.stored);
    return '0';
  }

  /** Locks the node; waits at most `timeout` seconds, without limit if omitted. Returns whether it got the lock. */
  lock(timeout?: number): boolean {
    this.#emit('lock');
    return this.stored.lock(timeout && timeout > 0 ? timeout * 1000 : Infinity);
  }

  unlock(): boolean {
    this.#emit('unlock');
    return this.stored.unlock();
  }

  /** Calls a function with each child until it returns `false`. */
  forEachChildNode(callback: (node: GlsNode) => unknown): void;
  forEachChildNode(options: EachOptions, callback?: (node: GlsNode) => unknown): void;
  forEachChildNode(options: EachOptions | ((node: GlsNode) => unknown), callback?: (node: GlsNode) => unknown): void {
    const [settings, call] = typeof options === 'function' ? [{}, options] : [options, callback];
    const { stored } = this;
    const reverse = isReverse(settings.direction);
    const bound = (key: string | number | undefined) => (key === undefined || key === '' ? undefined : stepOf(stored, keyText(key)));
    const [first, last] = [bound(settings.from), bound(settings.to)];
    const range = { from: reverse ? last : first, to: reverse ? first : last, prefix: settings.startsWith, reverse };
    const isArray = stored.isArray;
    for (const key of stored.keys(range)) {
      this.#emit(reverse ? 'previous' : 'next');
      if (call?.(this.#childOf(key, isArray)) === false) return;
    }
  }

  /** Calls a function with each descendant that has a value, depth first, until it returns `false`. */
  forEachLeafNode(callback: (node: any, value?: any) => unknown): void;
  forEachLeafNode(options: LeafOptions, callback?: (node: any, value?: any) => unknown): void;
  forEachLeafNode(
    options: LeafOptions | ((node: any, value?: any) => unknown),
    callback?: (node: any, value?: any) => unknown,
  ): void {
    const [settings, call] = typeof options === 'function' ? [{}, options] : [options, callback];
    const reverse = isReverse(settings.direction);
    for (const node of this.#leaves(reverse)) {
      this.#emit(reverse ? 'cursor_previous' : 'cursor_next');
      const answer = settings.getdata === true ? call?.([...node.keys], node.stored.ownValue) : call?.(node);
      if (answer === false) return;
    }
  }

  /** The first child after a key, or at it if the key does not exist. `false` if there is none. */
  getChildAfter(seed: string | number): GlsNode | false {
    return this.#sibling('next', keyText(seed)) ?? false;
  }

  childAfter(seed: string | number): GlsNode | false {
    return this.getChildAfter(seed);
  }

  getChildBefore(seed: string | number): GlsNode | false {
    return this.#sibling('previous', keyText(seed)) ?? false;
  }

  childBefore(seed: string | number): GlsNode | false {
    return this.getChildBefore(seed);
  }

  /** An object whose properties are the child nodes. */
  get proxy(): any {
    return proxyOf(this);
  }

  // Array methods. They do nothing on a node that is not an array.

  at(index: number): any {
    if (!this.isArray) return undefined;
    return (this.document as unknown[]).at(index);
  }

  concat(...others: unknown[]): any {
    return this.#changed((list) => {
      const all = list.concat(...others);
      list.splice(0, list.length, ...all);
      return all;
    });
  }

  includes(value: unknown): boolean {
    return this.isArray && (this.document as unknown[]).includes(value);
  }

  indexOf(value: unknown, from?: number): number {
    return this.isArray ? (this.document as unknown[]).indexOf(value, from) : -1;
  }

  pop(): any {
    return this.#changed((list) => list.pop());
  }

  push(...values: unknown[]): number | undefined {
    return this.#changed((list) => list.push(...values)) as number | undefined;
  }

  shift(): any {
    return this.#changed((list) => list.shift());
  }

  slice(start?: number, end?: number): any {
    return this.isArray ? (this.document as unknown[]).slice(start, end) : undefined;
  }

  splice(start: number, ...rest: any[]): any {
    return this.#changed((list) => (list.splice as (...args: unknown[]) => unknown[])(start, ...rest));
  }

  unshift(...values: unknown[]): number | undefined {
    return this.#changed((list) => list.unshift(...values)) as number | undefined;
  }

  /** Reads an array, changes it and writes it back in one transaction; does nothing if the node is not an array. @internal */
  changeArray<T>(change: (list: unknown[]) => T): T | undefined {
    return this.#changed(change);
  }

  #changed<T>(change: (list: unknown[]) => T): T | undefined {
    return this.#db.store.transaction(() => {
      const { stored } = this;
      if (!stored.isArray) return undefined;
      const list = stored.document as unknown[];
      const outcome = change(list);
      stored.document = list;
      return outcome;
    });
  }

  /** Writes the node. If it is an array element, creates the array first if needed. */
  #write(write: (node: StoreNode) => void): void {
    if (!hasElements(this.#given)) {
      write(this.stored);
      return;
    }
    this.#db.store.transaction((store) => {
      const [name, ...keys] = this.#given;
      let node = store.node(name ?? '');
      for (const key of keys) {
        const step = stepOf(node, key);
        if (typeof step === 'number') makeRoom(node, step);
        node = node.at(step);
      }
      write(node);
    });
  }

  #document(): unknown {
    const { stored } = this;
    const document: unknown = stored.document;
    return document === undefined ? '' : document;
  }

  #child(key: string | undefined): GlsNode | undefined {
    return key === undefined ? undefined : this.#childOf(key, this.isArray);
  }

  #childOf(key: string, isArray: boolean): GlsNode {
    return new GlsNode(this.#db, [...this.#given, isArray ? `[${key}]` : key]);
  }

  #sibling(direction: 'next' | 'previous', key: string): GlsNode | undefined {
    const { stored } = this;
    return this.#child(stored[direction](stepOf(stored, key)));
  }

  #beside(direction: 'next' | 'previous'): GlsNode | undefined {
    const { parent } = this;
    return parent === undefined ? undefined : parent.#sibling(direction, this.#given.at(-1)!);
  }

  *#leaves(reverse: boolean): Generator<GlsNode> {
    const { stored } = this;
    const isArray = stored.isArray;
    for (const key of stored.keys({ reverse })) {
      const child = this.#childOf(key, isArray);
      const defined = stored.at(key).defined();
      if (!reverse && defined % 10 === 1) yield child;
      if (defined >= 10) yield* child.#leaves(reverse);
      if (reverse && defined % 10 === 1) yield child;
    }
  }

  #emit(type: string, more?: object): void {
    if (this.#db.listens) this.#db.emit(type, { node: this, subscripts: this.subscripts, ...more });
  }
}

/** Whether any key below the global may be that of an array element. */
function hasElements(keys: readonly string[]): boolean {
  for (let index = 1; index < keys.length; index++) if (keys[index]!.startsWith('[')) return true;
  return false;
}

function isReverse(direction: string | undefined): boolean {
  return direction === 'reverse' || direction === 'backwards';
}

function layOver(node: StoreNode, value: unknown): void {
  if (typeof value !== 'object' || value === null) {
    node.set(value);
    return;
  }
  if (Array.isArray(value) || !node.exists) {
    node.document = value;
    return;
  }
  for (const [key, member] of Object.entries(value)) layOver(node.at(key), member);
}

/** Makes `node` an array that has an element at `index`, or can be extended by one. */
function makeRoom(node: StoreNode, index: number): void {
  if (!node.exists) node.set([]);
  if (!node.isArray) return;
  const last = node.previous();
  for (let next = last === undefined ? 0 : Number(last) + 1; next < index; next++) node.set(next, null);
}
