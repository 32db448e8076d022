/** Outcomes of operations. */
import { call } from './session.js';
import { SqlError, type SqlErrorMembers } from './error.js';
import type { Operation } from './operation.js';
import { bytesOf } from './values.js';

/** A row, by column name. */
export type Row = Record<string, any>;

/** The rows of a result; `count` is the number of rows returned or changed. */
export type Rows<R = Row> = R[] & { readonly count: number };

/** The result of a statement; `bytea` lists the columns of that type. */
export interface StatementResult {
  readonly rows: Row[];
  readonly count: number;
  readonly bytea?: readonly string[];
}

/** An operation or statement that failed. */
export interface ErrorOutcome {
  readonly error: SqlErrorMembers & { readonly message: string };
}

/** The outcome of one statement. */
export type Outcome = StatementResult | ErrorOutcome;

/** Performs an operation. @throws SqlError if it fails as a whole. */
export async function ask<O>(operation: Operation): Promise<O> {
  const outcome = (await call(operation)) as O & Partial<ErrorOutcome>;
  if (outcome.error !== undefined) throw errorOf(outcome as ErrorOutcome);
  return outcome;
}

export function errorOf({ error }: ErrorOutcome): SqlError {
  return new SqlError(error.message, error);
}

/** The rows of an outcome. @throws SqlError if the statement failed. */
export function rowsOf(outcome: Outcome): Rows {
  if ('error' in outcome) throw errorOf(outcome);
  return Object.defineProperty(readBytes(outcome), 'count', { value: outcome.count }) as Rows;
}

/** Decodes the `bytea` columns of rows. */
export function readBytes({ rows, bytea }: StatementResult): Row[] {
  for (const name of bytea ?? []) for (const row of rows) row[name] = bytesIn(row[name]);
  return rows;
}

/** Decodes a `bytea` value, or an array of them. */
function bytesIn(value: unknown): unknown {
  if (typeof value === 'string') return bytesOf(value);
  return Array.isArray(value) ? value.map(bytesIn) : value;
}
