/** Lets nothing else happen until it is true. */
export function spinUntil(condition) {
  while (!condition());
}
