import { toDelay } from './delay.js';

/** Options of {@link sleep}. */
export interface SleepOptions {
  /** Ends the sleep early: the promise is rejected with the signal's reason. */
  signal?: AbortSignal | undefined;
}

/**
 * Resolves after `ms` milliseconds, at most 2147483647 (24 days).
 *
 * ```js
 * await sleep(250, { signal: ctx.signal });
 * ```
 */
export function sleep(ms: number, options: SleepOptions = {}): Promise<void> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    const delay = toDelay(ms);
    if (signal === undefined) {
      setTimeout(resolve, delay);
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
    }, delay);
    signal.addEventListener('abort', abort, { once: true });
  });
}
