/** A database for handlers that block: the same queries, which stand still until the result is there. In pools only. */
import { callSync } from './desk.js';
import { errorOf, rowsOf, type Failed, type Outcome, type Row, type Rows } from './outcome.js';
import { allResults, firstRow, firstValue, onlyResult, type Statement } from './queries.js';
import { writtenOf } from './statement.js';

export interface WaitingQueries {
  /** As `query`, standing still until the rows are there: for handlers in pools whose worker does one request at a time. Throws a `SqlError`. */
  querySync(text: string, parameters?: readonly unknown[]): Rows;
  /** The first row, or `undefined`. */
  rowSync<R = Row>(text: string, parameters?: readonly unknown[]): R | undefined;
  /** The first value of the first row, or `undefined`. */
  valueSync<V = any>(text: string, parameters?: readonly unknown[]): V | undefined;
  /** As `pipeline`: statements that are sent together, without waiting for each other. */
  pipelineSync(statements: readonly Statement[]): Rows[];
}

export function waitingQueriesOf(source: string): WaitingQueries {
  const run = <R>(statements: readonly Statement[], take: (results: Rows[]) => R): R => {
    if (statements.length === 0) return take([]);
    const outcome = callSync({ op: 'statements', source, statements: statements.map(writtenOf) }) as readonly Outcome[] | Failed;
    if ('error' in outcome) throw errorOf(outcome);
    return take(outcome.map(rowsOf));
  };
  return {
    querySync: (text: string, parameters?: readonly unknown[]) => run([[text, parameters]], onlyResult),
    rowSync: <R>(text: string, parameters?: readonly unknown[]) => run([[text, parameters]], firstRow) as R | undefined,
    valueSync: <V>(text: string, parameters?: readonly unknown[]) => run([[text, parameters]], firstValue) as V | undefined,
    pipelineSync: (statements: readonly Statement[]) => run(statements, allResults),
  };
}
