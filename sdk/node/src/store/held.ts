/**
 * Transactions that are committed with the answer of their request. To commit costs more than most of them do, so a worker that handles
 * many requests in one turn of its loop commits all of theirs as one, and sends the answers after that.
 */
import type { NativeStore } from './native.js';

/** Called when a store holds what is yet to be committed: it must see to `settle` within the same turn, and be silent until then. */
type Holder = (native: NativeStore) => void;

let holder: Holder | undefined;

/** Names who sees to what is held; without one everything is committed at once. */
export function setHolder(named: Holder): void {
  holder = named;
}

/** Whether anything may be held. */
export function mayHold(): boolean {
  return holder !== undefined;
}

/** Says that a store may hold something. */
export function noteHeld(native: NativeStore): void {
  holder!(native);
}
