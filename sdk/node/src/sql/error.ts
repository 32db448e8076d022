/**
 * An error of a statement, reported by the database or by the connection to it. If a handler does not catch it, the client gets the same
 * response as from a route with that statement.
 */
export class SqlError extends Error {
  override readonly name = 'SqlError';
  /**
   * The SQLSTATE, five characters. Without an answer of the server: `full`, `timeout`, `unreachable`, `broken`, `cancelled`, `rolled_back`,
   * `too_large`, `session` or `not_sendable`; in pools also `over`, `unavailable`, `not_allowed` or `direct`.
   */
  readonly code: string;
  readonly detail: string | undefined;
  readonly hint: string | undefined;
  /** The violated constraint. */
  readonly constraint: string | undefined;
  /** The position of the error in the statement, in characters from 1. */
  readonly position: number | undefined;
  /** The name of the database in the configuration; undefined if the statement did not get that far. */
  readonly database: string | undefined;

  constructor(message: string, { code, detail, hint, constraint, position, database }: SqlErrorMembers) {
    super(message);
    this.code = code;
    this.database = database;
    this.detail = detail;
    this.hint = hint;
    this.constraint = constraint;
    this.position = position === undefined ? undefined : Number(position);
  }
}

export interface SqlErrorMembers {
  readonly code: string;
  readonly detail?: string;
  readonly hint?: string;
  readonly constraint?: string;
  readonly position?: string;
  readonly database?: string;
}
