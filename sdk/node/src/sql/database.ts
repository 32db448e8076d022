/** A database as handlers have it. */
import { copyIn, copyOut, type Pieces } from './copy.js';
import { cursorOf, type CursorOptions } from './cursor.js';
import { listenTo, type Listening } from './listen.js';
import type { Row } from './outcome.js';
import { queriesOf, type Queries } from './queries.js';
import { runStatements } from './statements.js';
import { transact, type Transaction, type TransactionOptions } from './transaction.js';

export interface Database extends Queries {
  /**
   * Runs a function in a transaction and gives what it returns, once that is committed. When it throws, all is undone. After a serialization failure or a deadlock it is run again, after a pause, so it should change nothing but the
   * database.
   *
   * ```js
   * await main.tx(async (t) => {
   *   await t`update accounts set balance = balance - ${amount} where id = ${from}`;
   *   await t`update accounts set balance = balance + ${amount} where id = ${to}`;
   * }, { isolation: 'serializable' });
   * ```
   */
  tx<R>(work: (t: Transaction) => R | PromiseLike<R>, options?: TransactionOptions): Promise<R>;
  /**
   * The rows of a statement, fetched as they are asked for, however many they are. It has a connection to itself until its end, or until the loop is left.
   *
   * ```js
   * for await (const { name } of main.cursor('select name from users')) …
   * ```
   */
  cursor(text: string, parameters?: readonly unknown[], options?: CursorOptions): AsyncGenerator<Row, void, undefined>;
  /**
   * Copies rows in with a statement `copy … from stdin`, at the pace of the database; gives their number. When the pieces throw, nothing is copied.
   *
   * ```js
   * await main.copyIn('copy users (id, name) from stdin (format csv)', await request.text());
   * ```
   */
  copyIn(text: string, pieces: Pieces): Promise<number>;
  /**
   * Copies rows out with a statement `copy … to stdout`, as they are asked for: strings, or bytes where the statement says `format binary`.
   *
   * ```js
   * return reply(main.copyOut('copy users to stdout (format csv, header)'), { headers: { 'content-type': 'text/csv' } });
   * ```
   */
  copyOut(text: string): AsyncGenerator<string | Uint8Array, void, undefined>;
  /**
   * Listens to what others tell a channel with `notify`; all who do share one connection.
   *
   * ```js
   * for await (const { payload, lost } of main.listen('orders')) …
   * ```
   */
  listen(channel: string): Listening;
}

export function databaseOf(source: string): Database {
  return Object.assign(
    queriesOf((statements, take) => runStatements(source, statements, take)),
    {
      tx: <R>(work: (t: Transaction) => R | PromiseLike<R>, options?: TransactionOptions) => transact(source, work, options),
      cursor: (text: string, parameters?: readonly unknown[], options?: CursorOptions) => cursorOf({ source }, text, parameters, options),
      copyIn: (text: string, pieces: Pieces) => copyIn({ source }, text, pieces),
      copyOut: (text: string) => copyOut({ source }, text),
      listen: (channel: string) => listenTo(source, channel),
    },
  );
}
