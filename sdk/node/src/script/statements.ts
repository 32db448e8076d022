/** Replaces `sql/statements.ts` in scripts: statements and results are passed as values, not as JSON. */
import { errorOf, type ErrorOutcome, type Rows } from '../sql/outcome.js';
import type { Statement } from '../sql/queries.js';
import { textOf } from '../sql/values.js';
import { host } from './host.js';
import { promiseOf } from './pending-operations.js';

export function runStatements<R>(source: string, statements: readonly Statement[], take: (results: Rows[]) => R): Promise<R> {
  return promiseOf(
    (outcome) => {
      if (!Array.isArray(outcome)) throw errorOf(outcome as ErrorOutcome);
      return take(outcome as Rows[]);
    },
    (call, wait) => host.sql(call, wait, source, statements, textOf),
  );
}
