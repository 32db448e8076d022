/** Options of {@link sleep}. */
export interface SleepOptions {
  /** Ends the sleep early: the promise is rejected with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/**
 * Resolves when so many milliseconds have passed.
 *
 * ```js
 * await sleep(250, { signal: ctx.signal });
 * ```
 */
export function sleep(ms: number, options: SleepOptions = {}): Promise<void> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    if (signal === undefined) {
      setTimeout(resolve, ms);
      return;
    }
    if (signal.aborted) {
      reject(signal.reason as Error);
      return;
    }
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', abort);
      resolve();
    }, ms);
    signal.addEventListener('abort', abort, { once: true });
  });
}
