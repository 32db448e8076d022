/**
 * Records: JSON objects of kinds with references that they keep for life, and TQL to ask for them, in this process.
 *
 * ```js
 * import { records, tql } from 'forebay/records';
 *
 * const ref = records.create({ kind: 'Article', title: 'Sample' });
 * records.read(ref);                                    // { kind: 'Article', title: 'Sample' }
 * tql({ where: ['EQ', 'title', "'Sample"], select: '$ref' }).results;      // [ref]
 * ```
 *
 * @module
 */
import { StoreError, store as serverStore, type JsonValue, type Store } from '../store/index.js';
import { jsonText } from '../store/json.js';
import { OwnModel, TAG_LENGTH, type Model } from './model.js';

/** What a record is known by: a number, and a bigint where a number would not be exact. */
export type Reference = number | bigint;

/** A record: an object that JSON can say. */
export type RecordData = { [name: string]: JsonValue };

/** A row of a list with records. */
export interface ListedRecord<T = RecordData> {
  id: Reference;
  data: T;
}

/** Which records of a kind a list has. */
export interface ListOptions {
  /** Only those behind this one. */
  after?: Reference | undefined;
  /** How many pages to pass over; 0 when left out. `after` is quicker. */
  page?: number | undefined;
  /** Records of a page; 100 when left out. A page ends early when it has a mebibyte. */
  size?: number | undefined;
}

/** What a statement is answered; which members there are depends on its verb. */
export interface TqlAnswer {
  code: 0;
  /** Of SELECT: the rows. */
  results?: any[];
  /** Of INSERT: the reference of the new record. */
  ref?: number;
  /** Of UPDATE and DELETE: the references of the records. */
  updated?: number[];
  deleted?: number[];
  /** With CURSOR: what the next statement goes on with; not there at the end. */
  cursor?: string;
  /** The answer ends at one of the limits of `[records]`. */
  truncated?: { by: string; limit?: number };
  /** Of EXPLAIN. */
  plan?: any;
  rid?: string;
}

const REPLACE = 0;
const PATCH = 1;
const DELETE = 2;
const SIZE = 100;

/**
 * The records of a store. Everything is synchronous, and part of the transaction or snapshot that is open. A method that takes a kind
 * finds only records of that kind: one look-up, where a reference alone takes two.
 */
export class Records {
  readonly #store: Store;

  constructor(store: Store = serverStore) {
    this.#store = store;
  }

  /** Where {@link rest} has them from. @internal */
  get model(): Model {
    return new OwnModel(this.#store);
  }

  /**
   * Executes a statement: an object as JSON has it, or friendly text. See docs/reference/tql.md.
   *
   * @throws StoreError `tql_syntax`, `tql_meaning`, `already_exists`, `no_record`, `limit`, ...
   */
  tql(statement: object | string): TqlAnswer {
    return JSON.parse(this.tqlText(statement)) as TqlAnswer;
  }

  /** The same, with the answer's JSON text, to be passed on as it is. */
  tqlText(statement: object | string): string {
    const text = typeof statement === 'string' ? statement : jsonText(statement);
    return this.#store.native.tql(text);
  }

  /** Runs a function as one transaction: see {@link Store.transaction}. */
  transaction<T>(work: () => T): T {
    return this.#store.transaction(work);
  }

  /** Makes a record, which is an object; gives its reference. */
  create(data: object): Reference {
    const { native } = this.#store;
    return toReference(native.recordCreate(jsonText(data)));
  }

  /** A record, or undefined when there is none. */
  read<T = any>(reference: Reference, kind?: string): T | undefined {
    const text = this.readText(reference, kind);
    return text === undefined ? undefined : (JSON.parse(text) as T);
  }

  /** The record's JSON text as it is stored, to be passed on as it is. */
  readText(reference: Reference, kind?: string): string | undefined {
    return this.#store.native.recordRead(digits(reference), kind);
  }

  /** The record's JSON text with its entity tag: what the server itself answers with the record. */
  readTagged(reference: Reference, kind?: string): { text: string; tag: string } | undefined {
    const found = this.#store.native.recordTagged(digits(reference), kind);
    return found === undefined ? undefined : { tag: found.slice(0, TAG_LENGTH), text: found.slice(TAG_LENGTH) };
  }

  /** Replaces a record, which may change its kind; false when there is none. */
  update(reference: Reference, data: object, kind?: string): boolean {
    const { native } = this.#store;
    return native.recordWrite(REPLACE, digits(reference), kind, jsonText(data));
  }

  /** Applies a merge patch (RFC 7396) to a record: `null` removes a member. False when there is none. */
  patch(reference: Reference, change: object, kind?: string): boolean {
    const { native } = this.#store;
    return native.recordWrite(PATCH, digits(reference), kind, jsonText(change));
  }

  /** Removes a record; false when there is none. Its reference is never given again. */
  delete(reference: Reference, kind?: string): boolean {
    return this.#store.native.recordWrite(DELETE, digits(reference), kind);
  }

  /** The kind of a record, or undefined when there is none. */
  kindOf(reference: Reference): string | undefined {
    return this.#store.native.recordKind(digits(reference));
  }

  /** References of the records of a kind, a page of them in their order; with `full` the records as well. */
  list(kind: string, options?: ListOptions & { full?: false | undefined }): Reference[];
  list<T = RecordData>(kind: string, options: ListOptions & { full: true }): ListedRecord<T>[];
  list(kind: string, options: ListOptions & { full?: boolean | undefined } = {}): Reference[] | ListedRecord[] {
    const after = options.after === undefined ? undefined : digits(options.after);
    const { page = 0, size = SIZE, full = false } = options;
    return JSON.parse(this.#store.native.recordList(kind, after, page, size, full ? 1 : 0)) as Reference[] | ListedRecord[];
  }
}

export { rest, type RestCall, type RestKind, type RestMethod, type RestOptions } from './rest.js';

/** The records of the server's store. */
export const records: Records = new Records();

/** Executes a statement about the records of the server's store: see {@link Records.tql}. */
export function tql(statement: object | string): TqlAnswer {
  return records.tql(statement);
}

function toReference(text: string): Reference {
  const number = Number(text);
  return Number.isSafeInteger(number) ? number : BigInt(text);
}

function digits(reference: Reference): string {
  if (typeof reference === 'bigint' ? reference >= 0n : Number.isSafeInteger(reference) && reference >= 0) return String(reference);
  throw new StoreError('no_record', `${String(reference)} is no reference: a whole number from 0 on, and a bigint beyond 2^53`);
}
