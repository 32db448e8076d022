/** How operations reach databases in pools: scripts have another module in the place of this one. */
import { calls, type Calls } from '../worker/calls.js';
import { SqlError } from './error.js';
import type { Operation } from './operation.js';

/**
 * Has an operation done on a database, on behalf of the call of a handler that is under way, and gives its outcome as it came: JSON that is parsed, which `outcome.ts` describes. What goes wrong with the database is an
 * outcome with `error`; this rejects only where nothing can be asked of any database, or where nobody waits for the call any more. Operations are sent in the order of the calls of this function, and may be under way at the
 * same time. What a call of a handler has opened and not closed (transactions, cursors) is undone and closed when the call has ended.
 */
export async function call(operation: Operation): Promise<unknown> {
  return allowed(operation).call(operation);
}

/** The same, standing still until the outcome is there. Only in pools. */
export function callSync(operation: Operation): unknown {
  return allowed(operation).callSync(operation);
}

/** Where a handler connects to a database itself; `undefined`: the server does that for it. */
export function urlOf(source: string): string | undefined {
  return (JSON.parse(process.env['FOREBAY_SQL_DIRECT'] ?? '{}') as Record<string, string>)[source];
}

function allowed({ source }: Operation): Calls {
  if (urlOf(source) !== undefined) {
    throw new SqlError(`database \`${source}\` has \`direct = true\`: handlers in pools connect to it with a client of their own, to sql.${source}.url`, { code: 'direct' });
  }
  const way = calls();
  const refusal = way.refusal(source);
  if (refusal !== null) throw new SqlError(refusal, { code: 'not_allowed' });
  return way;
}
