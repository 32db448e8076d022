/** What the database said of a statement, or why it said nothing. */
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

  constructor(message: string, { code, detail, hint, constraint, position }: SqlErrorMembers) {
    super(message);
    this.code = code;
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
}
