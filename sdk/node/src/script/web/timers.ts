/** Timers. A timer belongs to the call that sets it, and ends with it. */
import { host } from '../host.js';
import { cancelOperation, waitFor } from '../pending-operations.js';

type Callback = (...args: unknown[]) => void;

export function setTimeout(callback: Callback, ms = 0, ...args: unknown[]): number {
  check(callback);
  return waitFor(() => run(callback, args), (call, wait) => host.timer(call, wait, Number(ms)), false);
}

export function setImmediate(callback: Callback, ...args: unknown[]): number {
  return setTimeout(callback, 0, ...args);
}

export function setInterval(callback: Callback, ms = 0, ...args: unknown[]): number {
  check(callback);
  const begin = (call: number, wait: number) => host.timer(call, wait, Number(ms));
  const tick = () => {
    waitFor(tick, begin, false, number);
    run(callback, args);
  };
  const number = waitFor(tick, begin, false);
  return number;
}

export function clearTimer(timer: unknown): void {
  if (typeof timer === 'number') cancelOperation(timer);
}

function run(callback: Callback, args: unknown[]): void {
  try {
    callback(...args);
  } catch (error) {
    // An unhandled rejection is logged, and the call continues.
    void Promise.reject(error);
  }
}

function check(callback: unknown): void {
  if (typeof callback !== 'function') throw new TypeError(`a timer calls a function, not a value of type ${typeof callback}`);
}
