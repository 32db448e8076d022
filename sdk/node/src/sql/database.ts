/** A database as handlers have it. */
import { cursorOf, type CursorOptions } from './cursor.js';
import { ask, type Outcome, type Row } from './outcome.js';
import { queriesOf, type Queries } from './queries.js';
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
}

export function databaseOf(source: string): Database {
  return Object.assign(
    queriesOf((statements) => ask<readonly Outcome[]>({ op: 'statements', source, statements })),
    {
      tx: <R>(work: (t: Transaction) => R | PromiseLike<R>, options?: TransactionOptions) => transact(source, work, options),
      cursor: (text: string, parameters?: readonly unknown[], options?: CursorOptions) => cursorOf({ source }, text, parameters, options),
    },
  );
}
