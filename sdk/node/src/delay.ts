/** Longest delay of a timer in Node and Bun, 24 days; a longer timer would fire at once. */
const DELAY_MS_MAX = 2_147_483_647;

/** Checks a delay in milliseconds; a negative one becomes 0. @throws RangeError for a delay that timers do not support. */
export function toDelay(ms: number): number {
  if (typeof ms !== 'number' || !(ms <= DELAY_MS_MAX)) throw new RangeError(`a sleep takes at most ${DELAY_MS_MAX} milliseconds, not ${ms}`);
  return Math.max(ms, 0);
}
