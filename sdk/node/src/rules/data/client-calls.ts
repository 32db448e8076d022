/**
 * How rules wait for clients. Methods of clients are asynchronous here and block in Rengine: under `compat = "rengine"` they block the rule
 * (`host.settle`), otherwise a rule that returns without having awaited one fails.
 */
import { isPromise } from '../../outcome.js';
import { host } from '../../script/host.js';
import { step } from '../../script/pending-operations.js';

type Method = (this: unknown, ...values: unknown[]) => unknown;

/** A call whose promise was returned to a rule. */
interface ClientCall {
  /** The rule that made it; null if it was made after the rule had waited for something. */
  readonly rule: number | null;
  readonly promise: object;
  /** Created by the call, for its place. */
  readonly error: Error;
  isAwaited: boolean;
}

/** The calls of the current run. */
let calls: ClientCall[] = [];
/** Rules that have begun and not returned. */
const running = new Set<number>();
/** The rule whose synchronous part is running. */
let current: number | null = null;

/** Whether the synchronous part of a client's method is running: calls within it are its own. */
let isInside = false;

/** A promise that knows whether anything waits for it. */
export class ClientPromise<T> extends Promise<T> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  override then<A = T, B = never>(fulfilled?: ((value: T) => A | PromiseLike<A>) | null, rejected?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<A | B> {
    const call = calls.find(({ promise }) => promise === this);
    if (call !== undefined) call.isAwaited = true;
    return super.then(fulfilled, rejected);
  }
}

/** Replaces the methods of these classes, except those named, by ones that block, or whose promises must be awaited. */
export function adapt(classes: readonly { readonly name: string; readonly prototype: object }[], except: readonly string[] = []): void {
  for (const { name: owner, prototype } of classes) {
    for (const name of Object.getOwnPropertyNames(prototype)) {
      const method: unknown = Object.getOwnPropertyDescriptor(prototype, name)!.value;
      if (name === 'constructor' || except.includes(name) || typeof method !== 'function') continue;
      Object.defineProperty(prototype, name, { value: adapted(`${owner}.${name}`, method as Method), writable: true, configurable: true });
    }
  }
}

/** The function under this name, adapted like the methods. */
export function adapted<F extends Method>(name: string, method: F): F {
  const adapt = host.blocksRules()
    ? function (this: unknown, ...values: unknown[]): unknown {
        const result = method.apply(this, values);
        return isPromise(result) ? host.settle(step.call, result) : result;
      }
    : function (this: unknown, ...values: unknown[]): unknown {
        if (isInside) return method.apply(this, values);
        isInside = true;
        try {
          const result = method.apply(this, values);
          return isPromise(result) ? observe(name, result) : result;
        } finally {
          isInside = false;
        }
      };
  return adapt as F;
}

function observe(name: string, result: PromiseLike<unknown>): Promise<unknown> {
  const promise = new ClientPromise<unknown>((resolve, reject) => result.then(resolve, reject));
  const error = new Error(`\`${name}\` was not awaited: the rule returned while it was pending. Write \`await\` before the call`);
  calls.push({ rule: current, promise, error, isAwaited: false });
  return promise;
}

/** Runs the synchronous part of a rule. */
export function beginRule<R>(rule: number, run: () => R): R {
  running.add(rule);
  current = rule;
  try {
    return run();
  } finally {
    current = null;
  }
}

/** Marks the end of a rule. Returns an error if it has left a pending call that nothing awaits. */
export function endRule(rule: number): Error | undefined {
  const isOnly = running.size === 1;
  running.delete(rule);
  if (calls.length === 0) return undefined;
  const left = calls.find((call) => !call.isAwaited && (call.rule === rule || (call.rule === null && isOnly)) && host.isPending(call.promise));
  calls = calls.filter((call) => call !== left && host.isPending(call.promise));
  return left?.error;
}

/** Forgets the calls of a run. */
export function clean(): void {
  calls = [];
  running.clear();
}
