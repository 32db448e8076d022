/** The interface of a database for handlers. */
import { copyIn, copyOut, type Pieces } from './copy.js';
import { cursorOf, type CursorOptions } from './cursor.js';
import { listenTo, type Listening } from './listen.js';
import type { Row } from './outcome.js';
import { queriesOf, type Queries } from './queries.js';
import { runStatements } from './statements.js';
import { transact, type Transaction, type TransactionOptions } from './transaction.js';

export interface Database extends Queries {
  /**
   * Runs a function in a transaction; resolves to its result after the commit. If the function throws, the transaction is rolled back.
   * After a serialization failure or a deadlock it is retried after a delay, so the function should change nothing but the database.
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
   * The rows of a statement, fetched as you ask for them, however many there are. The statement occupies a connection until it ends or the
   * loop is left.
   *
   * ```js
   * for await (const { name } of main.cursor('select name from users')) …
   * ```
   */
  cursor(text: string, parameters?: readonly unknown[], options?: CursorOptions): AsyncGenerator<Row, void, undefined>;
  /**
   * Copies rows in with a statement `copy … from stdin`, at the pace of the database; resolves to their number. If reading the pieces
   * fails, nothing is copied.
   *
   * ```js
   * await main.copyIn('copy users (id, name) from stdin (format csv)', await request.text());
   * ```
   */
  copyIn(text: string, pieces: Pieces): Promise<number>;
  /**
   * Copies rows out with a statement `copy … to stdout`, as you ask for them: strings, or bytes if the statement says `format binary`.
   *
   * ```js
   * return reply(main.copyOut('copy users to stdout (format csv, header)'), { headers: { 'content-type': 'text/csv' } });
   * ```
   */
  copyOut(text: string): AsyncGenerator<string | Uint8Array, void, undefined>;
  /**
   * Listens to notifications (`notify`) on a channel. All listeners share one connection.
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
