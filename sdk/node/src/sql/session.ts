/** Sends operations to databases, for handlers in pools. Scripts replace this module with their own. */
import { calls, type Calls } from '../worker/calls.js';
import { SqlError } from './error.js';
import type { Operation } from './operation.js';

/**
 * Performs an operation on a database on behalf of the current call of a handler, and resolves to the outcome as it arrived: parsed JSON,
 * described in `outcome.ts`. Errors of the database are outcomes with `error`; this rejects only if databases are not available at all, or
 * if the call has ended. Operations are sent in the order in which this function is called, and may overlap. Whatever the call has opened
 * and not closed (transactions, cursors) is rolled back and closed when it ends.
 */
export async function call(operation: Operation): Promise<unknown> {
  return callsFor(operation).call(operation);
}

/** Like `call`, but blocks the thread until the outcome arrives. Pools only. */
export function callSync(operation: Operation): unknown {
  return callsFor(operation).callSync(operation);
}

/** The URL for a handler's own connection to a database; `undefined` unless the configuration allows one. */
export function urlOf(source: string): string | undefined {
  return (JSON.parse(process.env['FOREBAY_SQL_DIRECT'] ?? '{}') as Record<string, string>)[source];
}

function callsFor({ source }: Operation): Calls {
  if (urlOf(source) !== undefined) {
    throw new SqlError(`database \`${source}\` has \`direct = true\`: handlers in pools connect to it with a client of their own, to sql.${source}.url`, { code: 'direct' });
  }
  const channel = calls();
  const refusal = channel.refusal(source);
  if (refusal !== null) throw new SqlError(refusal, { code: 'not_allowed' });
  return channel;
}
