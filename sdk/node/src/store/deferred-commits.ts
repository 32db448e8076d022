/**
 * Transactions that are committed together with the response of their request (`commit: 'answer'`). A commit costs more than most
 * transactions, so a worker that handles many requests in one turn of its loop commits them all at once before it sends the responses.
 */
import type { NativeStore } from './native.js';

/** Called when a store has uncommitted transactions: must call `settle` within the same turn, and send no responses before. */
type Deferrer = (native: NativeStore) => void;

let deferrer: Deferrer | undefined;

/** Sets the deferrer; without one, everything is committed at once. */
export function setDeferrer(newDeferrer: Deferrer): void {
  deferrer = newDeferrer;
}

/** Whether commits may be deferred. */
export function mayDefer(): boolean {
  return deferrer !== undefined;
}

/** Reports that a store may have deferred commits. */
export function deferCommits(native: NativeStore): void {
  deferrer!(native);
}
