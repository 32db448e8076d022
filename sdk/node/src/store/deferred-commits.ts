/**
 * Transactions that are committed together with the response of their request (`commit: 'answer'`). A commit costs more than most
 * transactions, so a worker that handles many requests in one turn of its loop commits them all at once before it sends the responses.
 */
import type { NativeStore } from './native.js';

/** Called when a store has uncommitted transactions: must call `settle` within the same turn, and send no responses before. */
type Holder = (native: NativeStore) => void;

let holder: Holder | undefined;

/** Sets the holder; without one, everything is committed at once. */
export function setHolder(named: Holder): void {
  holder = named;
}

/** Whether commits may be deferred. */
export function mayHold(): boolean {
  return holder !== undefined;
}

/** Reports that a store may have deferred commits. */
export function noteHeld(native: NativeStore): void {
  holder!(native);
}
