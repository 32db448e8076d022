/** Blocks the thread until the condition is true. */
export function spinUntil(condition) {
  while (!condition());
}
