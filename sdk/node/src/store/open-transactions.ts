/**
 * Open transactions that begin and end with separate calls, as in mg-dbx. If the end is forgotten, no other process can write, so
 * a worker checks this after each request.
 */
import type { NativeStore } from './native.js';

const stores = new Set<NativeStore>();

/** Records whether a store has an open transaction, after a call that begins or ends one. */
export function noteLevel(native: NativeStore): void {
  if (native.level() > 0) stores.add(native);
  else stores.delete(native);
}

/** Whether any transaction is open. Asks the stores, because an enclosing transaction may have ended them without a note. */
export function hasOpenTransaction(): boolean {
  if (stores.size === 0) return false;
  for (const native of stores) {
    if (native.level() > 0) return true;
    stores.delete(native);
  }
  return false;
}

/** Rolls back all open transactions. */
export function rollBackOpenTransactions(): void {
  for (const native of stores) while (native.level() > 0) native.rollBack();
  stores.clear();
}
