/** Replaces `sql/session.ts` in scripts. */
import type { Operation } from '../sql/operation.js';
import { host } from './host.js';
import { promiseOf, step } from './pending-operations.js';

/** Operations that close something the call has open. */
const ENDINGS: readonly Operation['op'][] = ['rollback', 'rollback_to', 'close'];

export function call(operation: Operation): Promise<unknown> {
  // Everything open ends with the call. Resolving lets a handler that waits here continue, so that its `catch` and `finally` blocks run.
  if (ENDINGS.includes(operation.op) && !host.isOpen(step.call)) return Promise.resolve({});
  return promiseOf(
    (outcome) => outcome,
    (call, wait) => host.sqlOperation(call, wait, JSON.stringify(operation)),
  );
}

export function urlOf(_source: string): undefined {
  return undefined;
}

export function callSync(operation: Operation): never {
  throw new TypeError(`database \`${operation.source}\`: a script cannot block: await query(), row(), value() or pipeline()`);
}
