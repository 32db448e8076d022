/** The response to a `SqlError` that a handler did not catch. */
import type { SqlError } from './error.js';

/** The response, and whether it counts as a failure of the handler. */
export interface SqlProblem {
  readonly status: number;
  readonly message: string;
  readonly headers: readonly string[];
  readonly extra: Readonly<Record<string, unknown>>;
  /**
   * Whether the error is logged and the request counts as a failed handler. Errors caused by clients or by an unreachable database are
   * counted elsewhere.
   */
  readonly isFailure: boolean;
}

const RETRY_AFTER = ['retry-after', '1'];
const STATE = /^[0-9A-Z]{5}$/;

/**
 * The response that a route with the same statement would give (`crates/server/src/failure/sql.rs`); `protocol/vectors/sql/problems.json`
 * tests both.
 */
export function sqlProblem(error: SqlError): SqlProblem {
  const { code, constraint } = error;
  const [status, message] = statusOf(error);
  const extra = STATE.test(code) ? { sqlstate: code, ...(constraint === undefined ? {} : { constraint }) } : {};
  return { status, message, headers: status === 503 ? RETRY_AFTER : [], extra, isFailure: status >= 500 && status !== 503 };
}

function statusOf({ code, message, database }: SqlError): [status: number, message: string] {
  switch (code) {
    case 'timeout':
      return [504, message];
    case 'full':
    case 'cancelled':
      return [503, message];
    case 'unreachable':
      return [503, `database \`${database}\` cannot be reached`];
    case 'broken':
      return [502, `the connection to database \`${database}\` broke; whether the statement took effect is not known`];
    case 'P0001':
      return [422, message];
    case '57014':
      return [504, `database \`${database}\` has cancelled the statement`];
    case '40001':
    case '40P01':
      return [503, `transactions in database \`${database}\` stood in each other's way`];
  }
  if (STATE.test(code)) {
    switch (code.slice(0, 2)) {
      case '22':
        return [400, message];
      case '23':
        return [409, message];
      case '08':
      case '53':
      case '57':
        return [503, `database \`${database}\` takes no statements at the moment`];
    }
  }
  return [500, 'the handler failed'];
}
