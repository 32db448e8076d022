/** Longest delay of a timer in Node and Bun, 24 days; a longer one would end at once. */
const DELAY_MS_MAX = 2_147_483_647;

/** A number of milliseconds that a timer can wait; less than 0 is 0. Throws a RangeError for what would not be waited for. */
export function toDelay(ms: number): number {
  if (typeof ms !== 'number' || !(ms <= DELAY_MS_MAX)) throw new RangeError(`a sleep takes at most ${DELAY_MS_MAX} milliseconds, not ${ms}`);
  return Math.max(ms, 0);
}
