/**
 * Transactions that begin and end by calls of their own, as those of mg-dbx do. Whoever forgets the end keeps all others from
 * writing, so a worker looks here when it has answered a request.
 */
import type { NativeStore } from './native.js';

const begun = new Set<NativeStore>();

/** Notes whether a store has a transaction open, after a call that begins or ends one. */
export function noteLevel(native: NativeStore): void {
  if (native.level() > 0) begun.add(native);
  else begun.delete(native);
}

/** Whether any transaction is open. One around those noted here may have ended them by a call that notes nothing. */
export function isBegun(): boolean {
  if (begun.size === 0) return false;
  for (const native of begun) {
    if (native.level() > 0) return true;
    begun.delete(native);
  }
  return false;
}

/** Rolls back all that are open. */
export function rollBackBegun(): void {
  for (const native of begun) while (native.level() > 0) native.rollBack();
  begun.clear();
}
