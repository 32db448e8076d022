/**
 * How rules wait for clients. Methods of clients are asynchronous here and block in Rengine: under `compat = "rengine"` they block rules that
 * are plain functions (`host.settle`). Otherwise, and with clients that Rengine does not have, a rule that returns without having awaited
 * one fails.
 */
import { isPromise } from '../../outcome.js';
import { host } from '../../script/host.js';
import { step } from '../../script/pending-operations.js';

type Method = (this: unknown, ...values: unknown[]) => unknown;

/** A call whose promise was returned to a rule, and which is pending and not awaited. */
interface ClientCall {
  /** The rule that made it. */
  readonly rule: number;
  /** Created by the call, for its place. */
  readonly error: Error;
}

/** Such calls of the current run, by their promises. */
const calls = new Map<object, ClientCall>();
/** Whether the rule whose synchronous part is running is a plain function under `compat = "rengine"`, which clients block. One that is asynchronous was not written for Rengine. */
let isBlocking = false;
const blocksRules = host.blocksRules();
const AsyncFunction = (async () => {}).constructor as FunctionConstructor;

/** Whether the synchronous part of a client's method is running: calls within it are its own. */
let isInside = false;

/** A promise that knows whether anything waits for it. */
export class ClientPromise<T> extends Promise<T> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise;
  }

  override then<A = T, B = never>(fulfilled?: ((value: T) => A | PromiseLike<A>) | null, rejected?: ((reason: unknown) => B | PromiseLike<B>) | null): Promise<A | B> {
    calls.delete(this);
    return super.then(fulfilled, rejected);
  }
}

/** Replaces the methods of these classes, except those named, by ones that block a rule, unless `isOfRengine` is false, or whose promises it must await. */
export function adapt(classes: readonly { readonly name: string; readonly prototype: object }[], except: readonly string[] = [], isOfRengine = true): void {
  for (const { name: owner, prototype } of classes) {
    for (const name of Object.getOwnPropertyNames(prototype)) {
      const method: unknown = Object.getOwnPropertyDescriptor(prototype, name)!.value;
      if (name === 'constructor' || except.includes(name) || typeof method !== 'function') continue;
      Object.defineProperty(prototype, name, { value: adapted(`${owner}.${name}`, method as Method, isOfRengine), writable: true, configurable: true });
    }
  }
}

/** The function under this name, adapted like the methods. */
export function adapted<F extends Method>(name: string, method: F, isOfRengine = true): F {
  return function (this: unknown, ...values: unknown[]): unknown {
    if (isInside) return method.apply(this, values);
    isInside = true;
    let result: unknown;
    try {
      result = method.apply(this, values);
    } finally {
      isInside = false;
    }
    if (!isPromise(result)) return result;
    return isBlocking && isOfRengine ? settle(result) : observe(name, result);
  } as F;
}

/** Blocks the rule that is running. */
function settle(result: PromiseLike<unknown>): unknown {
  // The rule gets the error from the host.
  result.then(undefined, () => {});
  // Meanwhile the code of other rules may run.
  const { rule } = step;
  isBlocking = false;
  try {
    return host.settle(step.call, result);
  } finally {
    step.rule = rule;
    isBlocking = true;
  }
}

function observe(name: string, result: PromiseLike<unknown>): Promise<unknown> {
  const promise = new ClientPromise<unknown>((resolve, reject) => {
    const settled = (settle: (value: unknown) => void) => (value: unknown) => {
      calls.delete(promise);
      settle(value);
    };
    result.then(settled(resolve), settled(reject));
  });
  const error = new Error(`\`${name}\` was not awaited: the rule returned while it was pending. Write \`await\` before the call`);
  calls.set(promise, { rule: step.rule, error });
  return promise;
}

/** A function of a rule that runs later, with clients as they are for the rule now. */
export function bound<R>(task: () => R): () => R {
  const [rule, blocking] = [step.rule, isBlocking];
  return () => {
    const before = [step.rule, isBlocking, isInside] as const;
    [step.rule, isBlocking, isInside] = [rule, blocking, false];
    try {
      return task();
    } finally {
      [step.rule, isBlocking, isInside] = before;
    }
  };
}

/** The synchronous part of a rule begins. Returns what {@link returned} needs to know. */
export function beginRule(rule: number, process: object): boolean {
  const blockingBefore = isBlocking;
  step.rule = rule;
  isBlocking = blocksRules && !(process instanceof AsyncFunction);
  return blockingBefore;
}

/** The synchronous part of a rule is over. */
export function returned(blockingBefore: boolean): void {
  isBlocking = blockingBefore;
}

/** Marks the end of a rule. Returns an error if it has left a pending call that nothing awaits. */
export function endRule(rule: number): Error | undefined {
  if (calls.size === 0) return undefined;
  let error: Error | undefined;
  for (const [promise, call] of calls) {
    if (call.rule !== rule) continue;
    calls.delete(promise);
    error ??= call.error;
  }
  return error;
}

/** Forgets the calls of a run. */
export function clean(): void {
  calls.clear();
}
