/** Calls of handlers into the server, over the pipe to it. */

/** Sends the JSON text of what is asked; gives the text of the result. */
type Caller = (text: string, timeoutMs: number) => string;

/** How long a call waits for its result when nothing else is said. */
const TIMEOUT_MS = 5_000;

let caller: Caller | null = null;

/** Says how this process calls. */
export function setCaller(call: Caller): void {
  caller = call;
}

/** Whether this process can call. */
export function canAsk(): boolean {
  return caller !== null;
}

/** What the server answers to a statement of TQL. */
export interface TqlResult {
  /** 0: it was done. */
  code: number;
  /** What a select has found. */
  results?: unknown[];
  /** The reference of what was inserted. */
  ref?: number;
  /** References of what was updated. */
  updated?: number[];
  /** References of what was deleted. */
  deleted?: number[];
  /** Why it was not done. */
  error?: string;
  /** The code that `StoreError` has for that, where there is one. */
  reason?: string;
}

/**
 * Has the server execute a statement of TQL, as JSON or as text, and waits for the result:
 *
 * ```js
 * const { results } = callTql({ where: ['EQ', 'kind', "'Article"], select: '$' });
 * ```
 *
 * The whole process waits. It is over after `timeoutMs` (5 s) at the latest, with `{ code: -1, error: 'Timed out waiting for 7.' }`. Only for controllers on standard
 * input and output that speak messages (`protocol = "jsonl"` or `"wabur"`); throws elsewhere.
 */
export function callTql(statement: unknown, options: { timeoutMs?: number } = {}): TqlResult {
  return JSON.parse(askServer(JSON.stringify(statement), options.timeoutMs)) as TqlResult;
}

/** The same with texts of JSON, for all that the server can be asked (protocol/PROTOCOL.md, section 7). */
export function askServer(text: string, timeoutMs = TIMEOUT_MS): string {
  if (caller === null) {
    throw new TypeError('callTql works in pools whose protocol is "jsonl" or "wabur", after serve() was called');
  }
  return caller(text, timeoutMs);
}
