/** Calls from handlers into the server, over its pipe. */

/** Sends the JSON text of a call; returns the text of the result. */
type Caller = (text: string, timeoutMs: number) => string;

/** Default time that a call waits for its result. */
const TIMEOUT_MS = 5_000;

let caller: Caller | null = null;

/** Sets how this process makes calls. */
export function setCaller(call: Caller): void {
  caller = call;
}

/** Whether this process can make calls. */
export function canAsk(): boolean {
  return caller !== null;
}

/** The server's answer to a TQL statement. */
export interface TqlResult {
  /** 0 on success. */
  code: number;
  /** SELECT: the rows found. */
  results?: unknown[];
  /** INSERT: the reference of the new record. */
  ref?: number;
  /** UPDATE: references of the updated records. */
  updated?: number[];
  /** DELETE: references of the deleted records. */
  deleted?: number[];
  /** The error message, if the statement failed. */
  error?: string;
  /** The corresponding code of `StoreError`, if there is one. */
  reason?: string;
}

/**
 * Makes the server execute a TQL statement, as JSON or as text, and waits for the result:
 *
 * ```js
 * const { results } = callTql({ where: ['EQ', 'kind', "'Article"], select: '$' });
 * ```
 *
 * Blocks the whole process. After `timeoutMs` (5 s by default) it returns `{ code: -1, error: 'Timed out waiting for 7.' }`. Only for
 * controllers on standard input and output that speak messages (`protocol = "jsonl"` or `"wabur"`); throws elsewhere.
 */
export function callTql(statement: unknown, options: { timeoutMs?: number } = {}): TqlResult {
  return JSON.parse(askServer(JSON.stringify(statement), options.timeoutMs)) as TqlResult;
}

/** Like `callTql` but with JSON texts, for any call to the server (protocol/PROTOCOL.md, section 7). */
export function askServer(text: string, timeoutMs = TIMEOUT_MS): string {
  if (caller === null) {
    throw new TypeError('callTql works in pools whose protocol is "jsonl" or "wabur", after serve() was called');
  }
  return caller(text, timeoutMs);
}
