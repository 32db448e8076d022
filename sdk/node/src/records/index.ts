/**
 * Records, JSON objects with a kind and a permanent reference, and TQL to query them, in this process.
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
import { LocalModel, type Model } from './model.js';
import { TAG_LENGTH } from '../reply.js';

/** A record's reference: a number, or a bigint if a number would be inexact. */
export type Reference = number | bigint;

/** A record: a JSON object. */
export type RecordData = { [name: string]: JsonValue };

/** A row of a list that includes the records. */
export interface ListedRecord<T = RecordData> {
  id: Reference;
  data: T;
}

/** Selects the records of a list. */
export interface ListOptions {
  /** Start after this reference. */
  after?: Reference | undefined;
  /** Number of pages to skip; 0 by default. `after` is faster. */
  page?: number | undefined;
  /** Records per page; 100 by default. A page ends early once it reaches a mebibyte. */
  size?: number | undefined;
}

/** The answer to a statement; its members depend on the verb. */
export interface TqlAnswer {
  code: 0;
  /** SELECT: the rows. */
  results?: any[];
  /** INSERT: the reference of the new record. */
  ref?: number;
  /** UPDATE and DELETE: the references of the affected records. */
  updated?: number[];
  deleted?: number[];
  /** With CURSOR: pass it to the next statement to continue; absent at the end. */
  cursor?: string;
  /** Present if the answer was cut at one of the limits of `[records]`. */
  truncated?: { by: string; limit?: number };
  /** EXPLAIN: the query plan. */
  plan?: any;
  rid?: string;
}

const REPLACE = 0;
const PATCH = 1;
const DELETE = 2;
const SIZE = 100;

/**
 * The records of a store. All methods are synchronous and take part in the open transaction or snapshot. A method with a `kind`
 * finds only records of that kind, with one lookup; a reference alone takes two.
 */
export class Records {
  readonly #store: Store;

  constructor(store: Store = serverStore) {
    this.#store = store;
  }

  /** The model used by {@link rest}. @internal */
  get model(): Model {
    return new LocalModel(this.#store);
  }

  /**
   * Executes a statement: an object in TQL's JSON form, or friendly text. See docs/reference/tql.md.
   *
   * @throws StoreError `tql_syntax`, `tql_meaning`, `already_exists`, `no_record`, `limit`, ...
   */
  tql(statement: object | string): TqlAnswer {
    return JSON.parse(this.tqlText(statement)) as TqlAnswer;
  }

  /** Like `tql`, but returns JSON text, to be passed on unparsed. */
  tqlText(statement: object | string): string {
    const text = typeof statement === 'string' ? statement : jsonText(statement);
    return this.#store.native.tql(text);
  }

  /** Runs a function as one transaction; see {@link Store.transaction}. */
  transaction<T>(work: () => T): T {
    return this.#store.transaction(work);
  }

  /** Creates a record; returns its reference. */
  create(data: object): Reference {
    const { native } = this.#store;
    return toReference(native.recordCreate(jsonText(data)));
  }

  /** A record, or undefined if there is none. */
  read<T = any>(reference: Reference, kind?: string): T | undefined {
    const text = this.readText(reference, kind);
    return text === undefined ? undefined : (JSON.parse(text) as T);
  }

  /** The record's JSON text as stored, to be passed on unparsed. */
  readText(reference: Reference, kind?: string): string | undefined {
    return this.#store.native.recordRead(digits(reference), kind);
  }

  /** The record's JSON text with its entity tag, as in the server's own responses. */
  readTagged(reference: Reference, kind?: string): { text: string; tag: string } | undefined {
    const found = this.#store.native.recordTagged(digits(reference), kind);
    return found === undefined ? undefined : { tag: found.slice(0, TAG_LENGTH), text: found.slice(TAG_LENGTH) };
  }

  /** Replaces a record, which may change its kind; false if there is none. */
  update(reference: Reference, data: object, kind?: string): boolean {
    const { native } = this.#store;
    return native.recordWrite(REPLACE, digits(reference), kind, jsonText(data));
  }

  /** Applies a merge patch (RFC 7396) to a record: `null` removes a member. False if there is none. */
  patch(reference: Reference, change: object, kind?: string): boolean {
    const { native } = this.#store;
    return native.recordWrite(PATCH, digits(reference), kind, jsonText(change));
  }

  /** Deletes a record; false if there is none. Its reference is never reused. */
  delete(reference: Reference, kind?: string): boolean {
    return this.#store.native.recordWrite(DELETE, digits(reference), kind);
  }

  /** The kind of a record, or undefined if there is none. */
  kindOf(reference: Reference): string | undefined {
    return this.#store.native.recordKind(digits(reference));
  }

  /** A page of references of a kind's records, in order; with `full`, the records too. */
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

/** Executes a statement on the records of the server's store; see {@link Records.tql}. */
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
