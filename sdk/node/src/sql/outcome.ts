/** What becomes of operations. */
import { call } from './desk.js';
import { SqlError, type SqlErrorMembers } from './error.js';
import type { Operation } from './operation.js';
import { bytesOf } from './values.js';

/** A row by the names of its columns. */
export type Row = Record<string, any>;

/** The rows of a result, and how many the statement gave or changed. */
export type Rows = Row[] & { readonly count: number };

/** What a statement gave; `bytea` are the columns of that type. */
export interface Given {
  readonly rows: Row[];
  readonly count: number;
  readonly bytea?: readonly string[];
}

/** What went wrong. */
export interface Failed {
  readonly error: SqlErrorMembers & { readonly message: string };
}

/** What became of one statement. */
export type Outcome = Given | Failed;

/** Has an operation done; throws what goes wrong with it as a whole. */
export async function ask<O>(operation: Operation): Promise<O> {
  const outcome = (await call(operation)) as O & Partial<Failed>;
  if (outcome.error !== undefined) throw errorOf(outcome as Failed);
  return outcome;
}

export function errorOf({ error }: Failed): SqlError {
  return new SqlError(error.message, error);
}

/** Throws what went wrong with a statement. */
export function rowsOf(outcome: Outcome): Rows {
  if ('error' in outcome) throw errorOf(outcome);
  return Object.defineProperty(readBytes(outcome), 'count', { value: outcome.count }) as Rows;
}

/** The rows, with bytes in the columns that have such. */
export function readBytes({ rows, bytea }: Given): Row[] {
  for (const name of bytea ?? []) for (const row of rows) row[name] = bytesIn(row[name]);
  return rows;
}

/** A value of type `bytea`, or an array of such. */
function bytesIn(value: unknown): unknown {
  if (typeof value === 'string') return bytesOf(value);
  return Array.isArray(value) ? value.map(bytesIn) : value;
}
