/** What calls wait for. The server runs a script step by step; whatever a step begins belongs to the call of that step. */
import { host } from './host.js';

/** Called when what was waited for has come, or with the error that it has come to. */
export type Wake = (error: Error | null, value: unknown) => void;

interface Wait {
  readonly call: number;
  readonly wake: Wake;
  /** Whether it is told when nobody waits for the call any more. */
  readonly minds: boolean;
}

/** By their numbers. */
const waits = new Map<number, Wait>();
const NUMBER_MAX = 0x3fff_ffff;
let last = 0;

export const step = {
  /** Whose step runs; 0 while the script is loaded. */
  call: 0,
};

/**
 * Waits for what `begin` asks the server for; gives the wait's number. Where the call has ended, nothing ever comes. With `minds`, `wake` is also
 * told when the call ends before. It is the call of this step that waits, unless another is named.
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

/** The engine's own, from before calls are kept apart: what is waited for comes in a step of the call that waits. */
const OwnPromise = Promise;

/** The same as a promise, of what `take` makes of what has come. */
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

/** Waits no more. */
export function cancelWait(number: number): void {
  const wait = waits.get(number);
  if (wait === undefined) return;
  waits.delete(number);
  host.cancel(wait.call, number);
}

/** What was waited for has come. */
export function wake(number: number, error: Error | null, value: unknown): void {
  const wait = waits.get(number);
  if (wait === undefined) return;
  waits.delete(number);
  wait.wake(error, value);
}

/** The call has ended: what it waits for does not come any more. */
export function forgetWaits(call: number, error: Error | null = null): void {
  if (waits.size === 0) return;
  for (const [number, wait] of waits) {
    if (wait.call !== call) continue;
    waits.delete(number);
    if (error !== null && wait.minds) wait.wake(error, null);
  }
}
