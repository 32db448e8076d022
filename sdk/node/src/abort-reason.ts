/** Why a request was aborted, by the reason number of the ABORT frame. */
const REASONS: Readonly<Record<number, string>> = {
  1: 'the client has gone',
  2: 'the deadline has passed',
  3: 'the server ends',
};
const DEADLINE_PASSED = 2;

/** The reason of `ctx.signal` once it is aborted. */
export function abortError(reason: number): Error {
  const name = reason === DEADLINE_PASSED ? 'TimeoutError' : 'AbortError';
  return new DOMException(REASONS[reason] ?? `aborted (reason ${reason})`, name);
}
