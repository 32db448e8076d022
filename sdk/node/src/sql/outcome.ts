import type { SqlErrorMembers } from './error.js';

/** A row by the names of its columns. */
export type Row = Record<string, any>;

/** What became of one statement. */
export type Outcome = { readonly rows: Row[]; readonly count: number } | Failed;

/** What went wrong. */
export interface Failed {
  readonly error: SqlErrorMembers & { readonly message: string };
}
