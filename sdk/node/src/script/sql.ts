/** In the place of `sql/desk.ts` in scripts. */
import type { Operation } from '../sql/operation.js';
import { host } from './host.js';
import { waitFor } from './waits.js';

export function call(operation: Operation): Promise<unknown> {
  return new Promise((resolve, reject) => {
    waitFor(
      (error, outcome) => (error === null ? resolve(outcome) : reject(error)),
      (call, wait) => {
        if (operation.op !== 'statements' || operation.transaction !== undefined) return host.desk(call, wait, JSON.stringify(operation));
        // Most operations are these: what they are made of goes over as it is.
        const texts: string[] = [];
        const parameters = [];
        for (const [text, values] of operation.statements) {
          texts.push(text);
          parameters.push(values);
        }
        return host.sql(call, wait, operation.source, texts, parameters);
      },
    );
  });
}

export function callSync(operation: Operation): never {
  throw new TypeError(`database \`${operation.source}\`: a script does not stand still; wait for query(), row(), value() or pipeline() with await`);
}
