/** Blocking queries: the same methods, which block the thread until the result arrives. Pools only. */
import { isPromise } from '../outcome.js';
import { attemptsOf, checkWork, pauseAfter } from './attempts.js';
import { callSync } from './session.js';
import type { Operation } from './operation.js';
import { errorOf, rowsOf, type ErrorOutcome, type Outcome, type Row, type Rows } from './outcome.js';
import { allResults, firstRow, firstValue, onlyResult, type Statement } from './queries.js';
import { toWireStatement } from './statement.js';
import type { TransactionOptions } from './transaction.js';

export interface WaitingQueries {
  /** Like `query`, but blocks until the rows arrive; for handlers in pools whose workers process one request at a time. @throws SqlError */
  querySync<R = Row>(text: string, parameters?: readonly unknown[]): Rows<R>;
  /** The first row, or `undefined` if there is none. */
  rowSync<R = Row>(text: string, parameters?: readonly unknown[]): R | undefined;
  /** The first value of the first row, or `undefined` if there is none. */
  valueSync<V = any>(text: string, parameters?: readonly unknown[]): V | undefined;
  /** Like `pipeline`: statements are sent together, without waiting for each other. */
  pipelineSync(statements: readonly Statement[]): Rows[];
}

/** An open transaction with blocking methods. */
export interface WaitingTransaction extends WaitingQueries {
  /** Runs a function in a savepoint: if it throws, its changes are rolled back, and the transaction can continue. */
  txSync<R>(work: (t: WaitingTransaction) => R): R;
}

export interface WaitingDatabase extends WaitingQueries {
  /**
   * Like `tx`, with a synchronous function: runs it in a transaction and returns its result after the commit; if it throws, the transaction
   * is rolled back. Retried after a serialization failure or a deadlock.
   */
  txSync<R>(work: (t: WaitingTransaction) => R, options?: TransactionOptions): R;
}

interface Target {
  readonly source: string;
  readonly transaction?: number;
}

export function blockingDatabaseOf(source: string): WaitingDatabase {
  return { ...queriesOf({ source }), txSync: (work, options) => transact(source, work, options) };
}

function ask<O>(operation: Operation): O {
  const outcome = callSync(operation) as O & Partial<ErrorOutcome>;
  if (outcome.error !== undefined) throw errorOf(outcome as ErrorOutcome);
  return outcome;
}

function transact<R>(source: string, work: (t: WaitingTransaction) => R, options?: TransactionOptions): R {
  const attempts = attemptsOf(work, options);
  for (let attempt = 0; ; attempt++) {
    let pause: number;
    try {
      const target = { source, ...ask<{ transaction: number }>({ op: 'begin', source, ...attempts.begin }) };
      return within(work, target, () => ask({ op: 'commit', ...target }), () => ask({ op: 'rollback', ...target }));
    } catch (error) {
      pause = pauseAfter(error, attempt, attempts);
    }
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pause);
  }
}

function nest<R>(work: (t: WaitingTransaction) => R, target: Required<Target>): R {
  checkWork(work);
  const savepoint = { ...target, ...ask<{ savepoint: number }>({ op: 'savepoint', ...target }) };
  return within(work, target, () => ask({ op: 'release', ...savepoint }), () => ask({ op: 'rollback_to', ...savepoint }));
}

function within<R>(work: (t: WaitingTransaction) => R, target: Required<Target>, keep: () => void, undo: () => void): R {
  let result: R;
  try {
    result = work({ ...queriesOf(target), txSync: (inner) => nest(inner, target) });
    if (isPromise(result)) throw new TypeError('the function of txSync() returned a promise: use tx() for asynchronous functions');
  } catch (error) {
    try {
      undo();
    } catch {
      // If the rollback fails, the transaction has ended anyway.
    }
    throw error;
  }
  keep();
  return result;
}

function queriesOf(target: Target): WaitingQueries {
  const run = <R>(statements: readonly Statement[], take: (results: Rows[]) => R): R => {
    if (statements.length === 0) return take([]);
    const outcomes = ask<readonly Outcome[]>({ op: 'statements', ...target, statements: statements.map(toWireStatement) });
    return take(outcomes.map(rowsOf));
  };
  return {
    querySync: (text: string, parameters?: readonly unknown[]) => run([[text, parameters]], onlyResult) as Rows<any>,
    rowSync: <R>(text: string, parameters?: readonly unknown[]) => run([[text, parameters]], firstRow) as R | undefined,
    valueSync: <V>(text: string, parameters?: readonly unknown[]) => run([[text, parameters]], firstValue) as V | undefined,
    pipelineSync: (statements: readonly Statement[]) => run(statements, allResults),
  };
}
