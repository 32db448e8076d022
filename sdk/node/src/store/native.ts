/** The operations of an open store in the addon. */
import { area } from './addon.js';

/**
 * One open store. Each operation is one call. Arguments are passed in the area: `path` is the end of the path that starts at {@link START};
 * each further number is the end of an argument that starts where the previous one ends.
 */
export interface NativeStore {
  readonly path: string;
  /** A string is JSON text if `area[0]` says so: see {@link answer}. */
  get(path: number): unknown;
  /** The node's own value, in the form of `get`. */
  value(path: number): unknown;
  document(path: number): string | undefined;
  defined(path: number): 0 | 1 | 10 | 11;
  isArray(path: number): boolean;
  next(path: number, seed: number): string | undefined;
  previous(path: number, seed: number): string | undefined;
  /** Keys, or alternating keys and values; an object or array as value is JSON text in an array of one. */
  children(
    path: number,
    from: number,
    after: number,
    to: number,
    before: number,
    prefix: number,
    flags: number,
    limit: number,
  ): unknown[];
  /** Alternating subscripts below the path and values. */
  values(path: number, after: number, limit: number): unknown[];
  /**
   * Call directly after `children`, `values` or `query`: whether the page was cut because of its size, so that there may be more although
   * it has fewer than `limit` entries.
   */
  more(): boolean;
  globals(from: number, after: 0 | 1, limit: number): string[];
  /** The JSON text ends at `end`; if that is 0, it is `text`. */
  set(path: number, end: number, text?: string): void;
  put(path: number, end: number, text?: string): void;
  layOver(path: number, end: number, text?: string): void;
  patch(path: number, end: number, text?: string): void;
  kill(path: number): boolean;
  increment(path: number, by: number): string;
  merge(to: number, from: number): void;
  /** 1 defers the commit to `settle`, which commits several together. */
  begin(together: 0 | 1): number;
  settle(): void;
  commit(durability: number): void;
  rollBack(): void;
  level(): number;
  beginSnapshot(): void;
  endSnapshot(): void;
  flush(): void;
  /** Milliseconds since 1970; negative means never. */
  expire(path: number, at: number): boolean;
  expires(path: number): number | undefined;
  defineIndex(definition: string): void;
  dropIndex(name: number): boolean;
  indexes(): string[];
  /**
   * Returns the path of the records' parent, the position reached, and the records' subscripts. `place` is the end of the previous page's
   * position.
   */
  query(
    name: number,
    equal: number,
    from: number,
    to: number,
    place: number,
    flags: number,
    limit: number,
  ): [records: [string, ...string[]], reached: string, found: string[]];
  /** Milliseconds to wait; negative waits without limit. */
  lock(path: number, patience: number): boolean;
  unlock(path: number): boolean;
  unlockAll(): void;
  stats(): number[];
  close(): void;
  /** The JSON text of the answer to a TQL statement. */
  tql(statement: string): string;
  /** References are decimal digits, documents JSON texts. */
  recordCreate(document: string): string;
  recordRead(reference: string, kind?: string): string | undefined;
  /** 0 replaces, 1 patches, 2 deletes; false if there is no such record. */
  recordWrite(change: 0 | 1 | 2, reference: string, kind?: string, document?: string): boolean;
  recordKind(reference: string): string | undefined;
  /** The 34 characters of the record's entity tag, followed by its JSON text. */
  recordTagged(reference: string, kind?: string): string | undefined;
  /**
   * The body with which `rest()` answers a GET of one record, behind its entity tag unless `isWabur` is 1; undefined if there is no such
   * record, null if the request has conditions on the tag. Only scripts have it.
   */
  recordAnswer?(reference: string, kind: string, isWabur: 0 | 1): string | null | undefined;
  /** A command of a program's queue; the answer is JSON text. Only programs have it. */
  jobs?(command: string, queue: string, owner: string, now: number, argument: string): string;
  recordList(kind: string, after: string | undefined, page: number, size: number, full: 0 | 1): string;
}

/** Where arguments start in the area. */
export const START = 8;
/** Value of `area[0]` after a result that is the JSON text of an object or array. */
const JSON_TEXT = 1;

/** Interprets a result of `get` or `value`. */
export function answer(found: unknown): unknown {
  return typeof found === 'string' && area[0] === JSON_TEXT ? (JSON.parse(found) as unknown) : found;
}
