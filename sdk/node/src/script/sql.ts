/** In the place of `sql/desk.ts` in scripts. */
import type { Operation } from '../sql/operation.js';
import { host } from './host.js';
import { promiseOf } from './waits.js';

export function call(operation: Operation): Promise<unknown> {
  return promiseOf(
    (outcome) => outcome,
    (call, wait) => host.desk(call, wait, JSON.stringify(operation)),
  );
}

export function urlOf(_source: string): undefined {
  return undefined;
}

export function callSync(operation: Operation): never {
  throw new TypeError(`database \`${operation.source}\`: a script does not stand still; wait for query(), row(), value() or pipeline() with await`);
}
