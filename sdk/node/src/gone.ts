/** Why nobody waits for a handler's answer any more: the reasons of ABORT frames. */
const REASONS: Readonly<Record<number, string>> = {
  1: 'the client has gone',
  2: 'the deadline has passed',
  3: 'the server ends',
};
const DEADLINE_PASSED = 2;

/** What `ctx.signal` is aborted with. */
export function goneError(reason: number): Error {
  const name = reason === DEADLINE_PASSED ? 'TimeoutError' : 'AbortError';
  return new DOMException(REASONS[reason] ?? `aborted (reason ${reason})`, name);
}
