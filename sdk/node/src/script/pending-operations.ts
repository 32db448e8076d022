/** Pending operations of calls. The server runs a script step by step; an operation started in a step belongs to that step's call. */
import { host } from './host.js';

/** Called with the result of an operation, or with its error. */
export type Wake = (error: Error | null, value: unknown) => void;

interface PendingOperation {
  readonly call: number;
  /** The rule that waits, as `step.rule`. */
  readonly rule: number;
  readonly wake: Wake;
  /** Whether `wake` is called with an error if the call is aborted. */
  readonly wakeOnAbort: boolean;
}

/** Pending operations by number. */
const pending = new Map<number, PendingOperation>();
const NUMBER_MAX = 0x3fff_ffff;
let last = 0;

export const step = {
  /** The call whose step is running; 0 while the script is being loaded. */
  call: 0,
  /** The rule of the call whose code is running, by its ticket; 0 if there is none. */
  rule: 0,
};

/**
 * Waits for the operation that `begin` starts; returns its number. If the call has ended, `wake` is never called. With `wakeOnAbort`, it is
 * also called when the call is aborted. The operation belongs to `call`, by default that of the current step.
 */
export function waitFor(
  wake: Wake,
  begin: (call: number, number: number) => boolean,
  wakeOnAbort = true,
  number = nextNumber(),
  call = step.call,
): number {
  if (begin(call, number)) {
    pending.set(number, { call, rule: step.rule, wake, wakeOnAbort });
  }
  return number;
}

/** The engine's own constructor, saved before `isolatePromises`: operations are resumed in a step of the call that waits. */
const EnginePromise = Promise;

/** Like `waitFor`, but returns a promise of `take`'s result. */
export function promiseOf<T>(take: (value: unknown) => T, begin: (call: number, number: number) => boolean): Promise<T> {
  return new EnginePromise((resolve, reject) => {
    waitFor((error, value) => {
      if (error !== null) return reject(error);
      try {
        resolve(take(value));
      } catch (reason) {
        reject(reason as Error);
      }
    }, begin);
  });
}

function nextNumber(): number {
  do last = last === NUMBER_MAX ? 1 : last + 1;
  while (pending.has(last));
  return last;
}

/** Cancels an operation. */
export function cancelOperation(number: number): void {
  const operation = pending.get(number);
  if (operation === undefined) return;
  pending.delete(number);
  host.cancel(operation.call, number);
}

/** Completes an operation with its result or error. */
export function wake(number: number, error: Error | null, value: unknown): void {
  const operation = pending.get(number);
  if (operation === undefined) return;
  pending.delete(number);
  step.rule = operation.rule;
  operation.wake(error, value);
}

/** Drops all operations of a call that has ended; with `error`, wakes those with `wakeOnAbort`. */
export function dropOperations(call: number, error: Error | null = null): void {
  if (pending.size === 0) return;
  for (const [number, operation] of pending) {
    if (operation.call !== call) continue;
    pending.delete(number);
    if (error !== null && operation.wakeOnAbort) operation.wake(error, null);
  }
}
