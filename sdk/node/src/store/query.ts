import type { Bounds } from './bounds.js';
import { StoreError } from './error.js';
import { putAlone, putPlace, putSubscript, subscriptText, type Subscript } from './path.js';
import type { StoreNode } from './node.js';
import type { Store } from './store.js';

/** A value that an index can have: no objects and arrays. */
export type Scalar = null | boolean | number | bigint | string;

/** What an index is to be. */
export interface IndexDefinition {
  /** Its name, unique in the store. */
  name: string;
  /** The node whose children are the records. */
  records: StoreNode;
  /**
   * Paths inside a record, up to eight: `'city'`, or `['address', 'city']`. One `*` in them stands for every element of an array.
   * A record is in the index when it has a scalar in every field.
   */
  fields: readonly (string | readonly string[])[];
  /** Whether two records may not have the same values; they may when left out. */
  unique?: boolean | undefined;
}

/**
 * Which records of an index are wanted. Bounds are values of the first field that `equal` does not settle; values sort as null, false,
 * true, numbers by value, texts by their bytes.
 */
export interface Query extends Bounds<Scalar> {
  /** Values of the first fields. */
  equal?: readonly Scalar[] | Scalar | undefined;
}

const REVERSE = 1;
const WITHOUT_FROM = 2;
const WITHOUT_TO = 4;
/** Records are asked for in pages, which grow from the first to the second size. */
const PAGE_FIRST = 64;
const PAGE_MAX = 1024;

/** The definition as the store reads it. */
export function definitionText({ name, records, fields, unique = false }: IndexDefinition): string {
  const steps = fields.map((field) => (typeof field === 'string' ? [field] : field));
  return JSON.stringify({ name, records: records.path.map(definedText), fields: steps, unique });
}

/** A step of a path in a definition, which would take the name of what is no number for a text. */
function definedText(step: Subscript): string {
  if (typeof step !== 'number' || Number.isFinite(step)) return subscriptText(step);
  throw new StoreError('key', `a subscript cannot be ${step}`);
}

/** A definition that the store wrote. */
export function readDefinition(store: Store, text: string): IndexDefinition {
  const { name, records, fields, unique } = JSON.parse(text) as {
    name: string;
    records: [string, ...string[]];
    fields: string[][];
    unique: boolean;
  };
  return { name, records: store.node(...records), fields, unique };
}

/** The records of an index that a question is about, in its order. */
export function* queryRecords(store: Store, index: string, query: Query): Generator<StoreNode, void, void> {
  if (query.from !== undefined && query.after !== undefined) throw new StoreError('index', 'a query has `from` or `after`, not both');
  if (query.to !== undefined && query.before !== undefined) throw new StoreError('index', 'a query has `to` or `before`, not both');
  const equal = query.equal === undefined ? [] : Array.isArray(query.equal) ? query.equal : [query.equal];
  const flags =
    (query.reverse === true ? REVERSE : 0) |
    (query.after !== undefined ? WITHOUT_FROM : 0) |
    (query.before !== undefined ? WITHOUT_TO : 0);
  let place = '';
  for (let size = PAGE_FIRST, left = query.limit ?? Infinity; left > 0; size = Math.min(size * 4, PAGE_MAX)) {
    const limit = Math.min(size, left);
    const { native } = store;
    const name = putAlone(index);
    let end = name;
    for (const value of equal as readonly Scalar[]) end = putScalar(end, value);
    const equalEnd = end;
    const from = putScalar(equalEnd, query.from === undefined ? query.after : query.from);
    const to = putScalar(from, query.to === undefined ? query.before : query.to);
    const placeEnd = putPlace(to, place);
    const [records, reached, found] = native.query(name, equalEnd, from, to, placeEnd, flags, limit);
    const more = found.length === limit || native.more();
    const parent = store.node(...records);
    for (const key of found) yield parent.at(key);
    if (!more) return;
    place = reached;
    left -= found.length;
  }
}

/** Writes a value as JSON text; nothing for none. */
function putScalar(at: number, value: Scalar | undefined): number {
  if (value === undefined) return at;
  if (typeof value === 'bigint') return putSubscript(at, value.toString());
  if (typeof value === 'object' && value !== null) throw new StoreError('index', 'only scalars are in an index');
  if (typeof value === 'number' && !Number.isFinite(value)) throw new StoreError('index', `${value} is in no index`);
  return putSubscript(at, JSON.stringify(value));
}
