/**
 * PostgreSQL databases, by their names in the configuration.
 *
 * ```js
 * import { sql } from 'forebay/sql';
 *
 * const user = await sql.main.row('select id, name from users where id = $1', [id]);
 * ```
 *
 * Values of type `numeric`, and integers beyond 2^53 - 1, are strings, so that no digits are lost. Times are strings in ISO 8601, `bytea`
 * is a `Uint8Array`.
 *
 * @module
 */
import { databaseOf, type Database } from './database.js';
import { urlOf } from './session.js';
import { blockingDatabaseOf, type WaitingDatabase } from './blocking.js';

export { SqlError } from './error.js';
export type { Pieces } from './copy.js';
export type { CursorOptions } from './cursor.js';
export type { Database } from './database.js';
export type { EventsOptions, Listening, Notification } from './listen.js';
export type { Row, Rows } from './outcome.js';
export type { Queries, Statement } from './queries.js';
export type { Transaction, TransactionOptions } from './transaction.js';
export type { WaitingDatabase, WaitingQueries, WaitingTransaction } from './blocking.js';

/** A database for handlers. In scripts, the blocking methods throw. */
export interface HandlerDatabase extends Database, WaitingDatabase {
  /** The URL for your own client, in pools and for databases with `direct = true`. */
  readonly url: string | undefined;
}

const databases = new Map<string, HandlerDatabase>();

/** The databases, by the NAME of `[sql.NAME]`. */
export const sql: Readonly<Record<string, HandlerDatabase>> = new Proxy(Object.create(null) as Record<string, HandlerDatabase>, {
  get(_, name) {
    if (typeof name !== 'string') return undefined;
    let database = databases.get(name);
    if (database === undefined) databases.set(name, (database = Object.assign(databaseOf(name), blockingDatabaseOf(name), { url: urlOf(name) })));
    return database;
  },
});
