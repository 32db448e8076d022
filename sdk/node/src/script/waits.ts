/** Pending waits of calls. The server runs a script step by step; operations started in a step belong to that step's call. */
import { host } from './host.js';

/** Called with the result of a wait, or with its error. */
export type Wake = (error: Error | null, value: unknown) => void;

interface Wait {
  readonly call: number;
  readonly wake: Wake;
  /** Whether `wake` is called with an error if the call is aborted. */
  readonly minds: boolean;
}

/** Pending waits by number. */
const waits = new Map<number, Wait>();
const NUMBER_MAX = 0x3fff_ffff;
let last = 0;

export const step = {
  /** The call whose step is running; 0 while the script is being loaded. */
  call: 0,
};

/**
 * Waits for the operation that `begin` starts; returns the number of the wait. If the call has ended, `wake` is never called. With `minds`,
 * it is also called when the call is aborted. The wait belongs to `call`, by default that of the current step.
 */
export function waitFor(
  wake: Wake,
  begin: (call: number, number: number) => boolean,
  minds = true,
  number = nextNumber(),
  call = step.call,
): number {
  if (begin(call, number)) {
    waits.set(number, { call, wake, minds });
  }
  return number;
}

/** The engine's own constructor, saved before `keepPromisesApart`: waits are resumed in a step of the call that waits. */
const OwnPromise = Promise;

/** Like `waitFor`, but returns a promise of `take`'s result. */
export function promiseOf<T>(take: (value: unknown) => T, begin: (call: number, number: number) => boolean): Promise<T> {
  return new OwnPromise((resolve, reject) => {
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
  while (waits.has(last));
  return last;
}

/** Cancels a wait. */
export function cancelWait(number: number): void {
  const wait = waits.get(number);
  if (wait === undefined) return;
  waits.delete(number);
  host.cancel(wait.call, number);
}

/** Ends a wait with its result or error. */
export function wake(number: number, error: Error | null, value: unknown): void {
  const wait = waits.get(number);
  if (wait === undefined) return;
  waits.delete(number);
  wait.wake(error, value);
}

/** Drops all waits of a call that has ended; with `error`, those that mind are called with it. */
export function forgetWaits(call: number, error: Error | null = null): void {
  if (waits.size === 0) return;
  for (const [number, wait] of waits) {
    if (wait.call !== call) continue;
    waits.delete(number);
    if (error !== null && wait.minds) wait.wake(error, null);
  }
}
