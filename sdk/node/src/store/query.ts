import type { Bounds } from './bounds.js';
import { StoreError } from './error.js';
import { putAlone, putPlace, putSubscript, subscriptText, type Subscript } from './path.js';
import type { StoreNode } from './node.js';
import type { Store } from './store.js';

/** A value that can be indexed: anything but objects and arrays. */
export type Scalar = null | boolean | number | bigint | string;

/** The definition of an index. */
export interface IndexDefinition {
  /** The index's name, unique in the store. */
  name: string;
  /** The node whose children are the records. */
  records: StoreNode;
  /**
   * Paths inside a record, up to eight: `'city'`, or `['address', 'city']`. One of their steps may be `*`, for every element of an array.
   * A record is in the index if it has a scalar in every field.
   */
  fields: readonly (string | readonly string[])[];
  /** Whether two records must not have the same values; false by default. */
  unique?: boolean | undefined;
}

/**
 * Selects records of an index. Bounds are values of the first field that `equal` does not cover; values sort as null, false,
 * true, numbers by value, texts by their bytes.
 */
export interface Query extends Bounds<Scalar> {
  /** Values of the first fields. */
  equal?: readonly Scalar[] | Scalar | undefined;
}

const REVERSE = 1;
const WITHOUT_FROM = 2;
const WITHOUT_TO = 4;
/** Records are read in pages, which grow from the first size to the second. */
const PAGE_FIRST = 64;
const PAGE_MAX = 1024;

/** A definition as JSON for the store. */
export function definitionText({ name, records, fields, unique = false }: IndexDefinition): string {
  const steps = fields.map((field) => (typeof field === 'string' ? [field] : field));
  return JSON.stringify({ name, records: records.path.map(definedText), fields: steps, unique });
}

/** A step of a path in a definition. An invalid number is rejected; as text it would become a member name. */
function definedText(step: Subscript): string {
  if (typeof step !== 'number' || Number.isFinite(step)) return subscriptText(step);
  throw new StoreError('key', `a subscript cannot be ${step}`);
}

/** Parses a definition from the store. */
export function readDefinition(store: Store, text: string): IndexDefinition {
  const { name, records, fields, unique } = JSON.parse(text) as {
    name: string;
    records: [string, ...string[]];
    fields: string[][];
    unique: boolean;
  };
  return { name, records: store.node(...records), fields, unique };
}

/** The records of an index that match a query, in order. */
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

/** Writes a value as JSON text; writes nothing for undefined. */
function putScalar(at: number, value: Scalar | undefined): number {
  if (value === undefined) return at;
  if (typeof value === 'bigint') return putSubscript(at, value.toString());
  if (typeof value === 'object' && value !== null) throw new StoreError('index', 'only scalars are in an index');
  if (typeof value === 'number' && !Number.isFinite(value)) throw new StoreError('index', `${value} is in no index`);
  return putSubscript(at, JSON.stringify(value));
}
