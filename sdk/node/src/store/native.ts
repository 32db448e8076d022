/** The operations of an open store, as the addon has them. */
import { area } from './addon.js';

/**
 * One open store. Each operation is one call: `path` is where the path ends that begins at {@link START}; further numbers
 * say where further arguments end, each of which begins where the one before it ends.
 */
export interface NativeStore {
  readonly path: string;
  /** A string is JSON text when `area[0]` says so: see {@link answer}. */
  get(path: number): unknown;
  /** The node's own value, in the same way. */
  value(path: number): unknown;
  document(path: number): string | undefined;
  defined(path: number): 0 | 1 | 10 | 11;
  isArray(path: number): boolean;
  next(path: number, seed: number): string | undefined;
  previous(path: number, seed: number): string | undefined;
  /** Keys, or keys and values by turns; an object or array as value is its text in an array of one. */
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
  /** Subscripts below the path and values by turns. */
  values(path: number, after: number, limit: number): unknown[];
  /** Right after `children`, `values` or `query`: whether what they gave had become long, so that there may be more though it is less than `limit`. */
  more(): boolean;
  globals(from: number, after: 0 | 1, limit: number): string[];
  /** The JSON text ends at `end`; when that is 0, it is `text`. */
  set(path: number, end: number, text?: string): void;
  put(path: number, end: number, text?: string): void;
  layOver(path: number, end: number, text?: string): void;
  patch(path: number, end: number, text?: string): void;
  kill(path: number): boolean;
  increment(path: number, by: number): string;
  merge(to: number, from: number): void;
  /** 1 to have it committed by `settle`, together with others. */
  begin(together: 0 | 1): number;
  settle(): void;
  commit(durability: number): void;
  rollBack(): void;
  level(): number;
  beginSnapshot(): void;
  endSnapshot(): void;
  flush(): void;
  /** Milliseconds since 1970; less than 0 is never. */
  expire(path: number, at: number): boolean;
  expires(path: number): number | undefined;
  defineIndex(definition: string): void;
  dropIndex(name: number): boolean;
  indexes(): string[];
  /** The path of the records' parent, the place that has been reached, and the records' subscripts; `place` ends that of the page before. */
  query(
    name: number,
    equal: number,
    from: number,
    to: number,
    place: number,
    flags: number,
    limit: number,
  ): [records: [string, ...string[]], reached: string, found: string[]];
  /** Milliseconds; less than 0 waits for ever. */
  lock(path: number, patience: number): boolean;
  unlock(path: number): boolean;
  unlockAll(): void;
  stats(): number[];
  close(): void;
  /** The JSON text of the answer to a statement. */
  tql(statement: string): string;
  /** References are decimal digits, documents JSON texts. */
  recordCreate(document: string): string;
  recordRead(reference: string, kind?: string): string | undefined;
  /** 0 replaces, 1 patches, 2 removes; false: there is no such record. */
  recordWrite(change: 0 | 1 | 2, reference: string, kind?: string, document?: string): boolean;
  recordKind(reference: string): string | undefined;
  /** The 34 characters of the record's entity tag, and then its JSON text. */
  recordTagged(reference: string, kind?: string): string | undefined;
  recordList(kind: string, after: string | undefined, page: number, size: number, full: 0 | 1): string;
}

/** Where arguments begin in the area. */
export const START = 8;
/** What `area[0]` is after an answer that is the text of an object or array. */
const JSON_TEXT = 1;

/** What an answer of `get` or `value` means. */
export function answer(found: unknown): unknown {
  return typeof found === 'string' && area[0] === JSON_TEXT ? (JSON.parse(found) as unknown) : found;
}
