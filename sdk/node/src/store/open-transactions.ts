/**
 * Open transactions that begin and end with separate calls, as in mg-dbx. If the end is forgotten, no other process can write, so
 * a worker checks this after each request.
 */
import type { NativeStore } from './native.js';

const begun = new Set<NativeStore>();

/** Records whether a store has an open transaction, after a call that begins or ends one. */
export function noteLevel(native: NativeStore): void {
  if (native.level() > 0) begun.add(native);
  else begun.delete(native);
}

/** Whether any transaction is open. Asks the stores, because an enclosing transaction may have ended them without a note. */
export function isBegun(): boolean {
  if (begun.size === 0) return false;
  for (const native of begun) {
    if (native.level() > 0) return true;
    begun.delete(native);
  }
  return false;
}

/** Rolls back all open transactions. */
export function rollBackBegun(): void {
  for (const native of begun) while (native.level() > 0) native.rollBack();
  begun.clear();
}
