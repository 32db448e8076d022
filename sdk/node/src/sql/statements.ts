/** Runs statements outside of transactions. Scripts replace this module with their own. */
import { ask, rowsOf, type Outcome, type Rows } from './outcome.js';
import type { Statement } from './queries.js';
import { toWireStatement } from './statement.js';

/**
 * Runs statements, each in its own transaction; resolves to what `take` makes of their results. Rejects with the first error once all have
 * ended.
 */
export async function runStatements<R>(source: string, statements: readonly Statement[], take: (results: Rows[]) => R): Promise<R> {
  if (statements.length === 0) return take([]);
  const outcomes = await ask<readonly Outcome[]>({ op: 'statements', source, statements: statements.map(toWireStatement) });
  return take(outcomes.map(rowsOf));
}
