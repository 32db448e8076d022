/** What the database said of a statement, or why it said nothing. When a handler lets it through, its client is told what a route of that statement would tell. */
export class SqlError extends Error {
  override readonly name = 'SqlError';
  /** SQLSTATE, five characters; where the server said nothing `full`, `timeout`, `unreachable`, `broken`, `cancelled`, `rolled_back`, `too_large`, `session` or `not_sendable`; in pools also `over`, `unavailable`, `not_allowed` or `direct`. */
  readonly code: string;
  readonly detail: string | undefined;
  readonly hint: string | undefined;
  /** The constraint that was violated. */
  readonly constraint: string | undefined;
  /** Where in the statement, in characters from 1. */
  readonly position: number | undefined;
  /** The database, by its name in the configuration; left out where the statement has not come as far as that. */
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
