/** What clients are told when a handler lets a `SqlError` through. */
import type { SqlError } from './error.js';

/** A problem, and whether it is the handler that has failed. */
export interface SqlProblem {
  readonly status: number;
  readonly message: string;
  readonly headers: readonly string[];
  readonly extra: Readonly<Record<string, unknown>>;
  /** The log is told of it, and the request counts as one whose handler has failed. What clients, or a database that is away, have caused is told and counted elsewhere. */
  readonly isFailure: boolean;
}

const RETRY_AFTER = ['retry-after', '1'];
const STATE = /^[0-9A-Z]{5}$/;

/** The same as a route that is this statement would answer (`crates/server/src/failure/sql.rs`): `protocol/vectors/sql/problems.json` holds both to it. */
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
