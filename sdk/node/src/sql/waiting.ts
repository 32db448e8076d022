/** A database for handlers that block: the same queries, which stand still until the result is there. In pools only. */
import { callSync } from './desk.js';
import type { WireStatement } from './operation.js';
import { errorOf, rowsOf, type Failed, type Outcome, type Row, type Rows } from './outcome.js';
import { written, type Statement } from './queries.js';

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
  const run = (statements: readonly WireStatement[]): readonly Outcome[] => {
    const outcome = callSync({ op: 'statements', source, statements }) as readonly Outcome[] | Failed;
    if ('error' in outcome) throw errorOf(outcome);
    return outcome;
  };
  const querySync = (text: string, parameters?: readonly unknown[]): Rows => rowsOf(run([written(text, parameters)])[0]!);
  return {
    querySync,
    rowSync: <R>(text: string, parameters?: readonly unknown[]) => querySync(text, parameters)[0] as R | undefined,
    valueSync<V>(text: string, parameters?: readonly unknown[]) {
      const [first] = querySync(text, parameters);
      for (const column in first) return first[column] as V;
      return undefined;
    },
    pipelineSync(statements) {
      if (statements.length === 0) return [];
      const all = statements.map((statement) => (typeof statement === 'string' ? written(statement) : written(...statement)));
      return run(all).map(rowsOf);
    },
  };
}
