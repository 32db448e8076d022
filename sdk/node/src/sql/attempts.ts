/** How a transaction begins, and when it is retried. */
import { SqlError } from './error.js';
import type { TransactionOptions } from './transaction.js';

const ISOLATIONS = ['read committed', 'repeatable read', 'serializable'];
const RETRIES = 5;
const RETRIES_MAX = 100;
/** Conflicts between transactions (serialization failure, deadlock): a retry may succeed. */
const CONFLICTS = ['40001', '40P01'];
/** The delay before a retry is random; its upper limit doubles from PAUSE_MS to PAUSE_MAX_MS. */
const PAUSE_MS = 10;
const PAUSE_MAX_MS = 500;

/** Validated options. */
export interface Attempts {
  /** Parameters of the `begin` operation. */
  readonly begin: { readonly isolation?: string; readonly read_only: boolean };
  readonly retries: number;
}

/** Validates the function and the options of a transaction. */
export function attemptsOf(work: unknown, { isolation, readOnly = false, retries = RETRIES }: TransactionOptions = {}): Attempts {
  checkWork(work);
  if (isolation !== undefined && !ISOLATIONS.includes(isolation)) {
    throw new RangeError(`the isolation of a transaction is one of ${ISOLATIONS.join(', ')}, not ${String(isolation)}`);
  }
  if (!Number.isInteger(retries) || retries < 0 || retries > RETRIES_MAX) {
    throw new RangeError(`the retries of a transaction are 0 to ${RETRIES_MAX}, not ${String(retries)}`);
  }
  return { begin: { ...(isolation === undefined ? {} : { isolation }), read_only: Boolean(readOnly) }, retries };
}

export function checkWork(work: unknown): void {
  if (typeof work !== 'function') throw new TypeError(`a transaction takes a function, not a ${typeof work}`);
}

export function isConflict(code: string): boolean {
  return CONFLICTS.includes(code);
}

/** The delay before the next attempt, in milliseconds. @throws `error` itself if there is to be no further attempt. */
export function pauseAfter(error: unknown, attempt: number, { retries }: Attempts): number {
  if (attempt >= retries || !(error instanceof SqlError) || !isConflict(error.code)) throw error;
  return 1 + Math.random() * Math.min(PAUSE_MS * 2 ** attempt, PAUSE_MAX_MS);
}
