/**
 * Keeps each promise reaction in the steps of the call that waits for it, if an engine has several open calls. The server marks each
 * promise with the call that made it; a call that awaits a pending promise of another call is resumed in a step of its own, not in a step
 * of that call.
 */
import { host } from './host.js';
import { step, waitFor } from './pending-operations.js';

/** A promise with the number of its call under the mark. */
type MarkedPromise = Record<number, number | undefined>;
type Settle = (value: unknown) => void;
type Executor = (resolve: Settle, reject: Settle) => void;
type Then = (this: Promise<unknown>, fulfilled?: unknown, rejected?: unknown) => Promise<unknown>;

/** Settles a promise in a step of the given call. If that call has ended, nothing happens. */
function settleInStepOf(call: number, settle: Settle, value: unknown): void {
  if (call === step.call) settle(value);
  else waitFor(() => settle(value), (_, number) => host.turn(call, number), false, undefined, call);
}

/**
 * Replaces the promise constructor and `then` if an engine may have several calls at a time; not needed where each call ends in one step.
 */
export function isolatePromises(): void {
  const mark = host.markPromises();
  if (mark < 0) return;
  const Native = Promise;
  const then = Native.prototype.then as Then;

  /** Whether a promise belongs to another call and is pending. */
  const isForeign = (promise: object, owner: number | undefined): boolean => owner !== undefined && step.call !== 0 && host.isPending(promise);

  function isolatedThen(this: Promise<unknown> & MarkedPromise, fulfilled?: unknown, rejected?: unknown): Promise<unknown> {
    const owner = this[mark];
    if (owner === step.call || !isForeign(this, owner)) return then.call(this, fulfilled, rejected);
    const call = step.call;
    const isolated = new Native((resolve: Settle, reject: Settle) => {
      void then.call(
        this,
        (value: unknown) => settleInStepOf(call, resolve, value),
        (error: unknown) => settleInStepOf(call, reject, error),
      );
    });
    return then.call(isolated, fulfilled, rejected);
  }

  // Settles the promise in a step of the call that made it, so that reactions of that call need no check.
  const IsolatedPromise = function Promise(executor: Executor): unknown {
    if (new.target === undefined) throw new TypeError('Promise is a constructor: call it with `new`');
    if (typeof executor !== 'function') throw new TypeError('a promise is made with a function');
    const call = step.call;
    const isolatedExecutor: Executor = (resolve, reject) =>
      executor(
        (value) => settleOf(call, resolve, value),
        (error) => settleOf(call, reject, error),
      );
    const target = new.target as unknown;
    return Reflect.construct(Native, [isolatedExecutor], target === IsolatedPromise ? Native : (target as typeof Native));
  };

  /** Settles at once if the call has ended, because other calls may wait for its promise too. */
  const settleOf = (call: number, settle: Settle, value: unknown): void =>
    call !== step.call && host.isOpen(call) ? settleInStepOf(call, settle, value) : settle(value);

  const define = (object: object, name: PropertyKey, value: unknown) =>
    Object.defineProperty(object, name, { value, writable: true, configurable: true });
  Object.setPrototypeOf(IsolatedPromise, Native);
  Object.defineProperty(IsolatedPromise, 'prototype', { value: Native.prototype });
  Object.defineProperty(IsolatedPromise, 'length', { value: 1 });
  for (const name of ['all', 'allSettled', 'any', 'race', 'reject', 'resolve', 'try'] as const) {
    const method = (Native as unknown as Record<string, ((...args: unknown[]) => unknown) | undefined>)[name];
    if (method === undefined) continue;
    define(IsolatedPromise, name, function (this: unknown, ...args: unknown[]) {
      return method.apply(this === IsolatedPromise ? Native : this, args);
    });
  }
  define(IsolatedPromise, 'withResolvers', function (this: typeof Native) {
    const made: Record<string, unknown> = {};
    made['promise'] = new this((resolve, reject) => Object.assign(made, { resolve, reject }));
    return made;
  });
  define(Native.prototype, 'then', isolatedThen);
  // The engine reads `constructor` before it awaits a promise; if it is not the engine's own, it calls `then`.
  Object.defineProperty(Native.prototype, 'constructor', {
    configurable: true,
    get(this: MarkedPromise) {
      const owner = this[mark];
      return owner === step.call || !isForeign(this, owner) ? Native : IsolatedPromise;
    },
    set(this: object, value: unknown) {
      define(this, 'constructor', value);
    },
  });
  define(globalThis, 'Promise', IsolatedPromise);
}
