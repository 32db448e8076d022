/** How statements reach a database, and their results come back: scripts have another module in the place of this one. */
import { ask, rowsOf, type Outcome, type Rows } from './outcome.js';
import type { Statement } from './queries.js';
import { writtenOf } from './statement.js';

/** Runs statements, each one of its own; gives what `take` makes of their results, and rejects with the first error when all have ended. */
export async function runStatements<R>(source: string, statements: readonly Statement[], take: (results: Rows[]) => R): Promise<R> {
  if (statements.length === 0) return take([]);
  const outcomes = await ask<readonly Outcome[]>({ op: 'statements', source, statements: statements.map(writtenOf) });
  return take(outcomes.map(rowsOf));
}
