/** In the place of `sql/statements.ts` in scripts. */
import type { Outcome } from '../sql/outcome.js';
import type { Text } from '../sql/values.js';
import { host } from './host.js';
import { waitFor } from './waits.js';

export function runStatements(name: string, texts: readonly string[], parameters: readonly (readonly Text[])[]): Promise<Outcome[]> {
  return new Promise((resolve, reject) => {
    waitFor(
      (error, outcomes) => (error === null ? resolve(outcomes as Outcome[]) : reject(error)),
      (call, wait) => host.sql(call, wait, name, texts, parameters),
    );
  });
}
