/** Replaces `sleep.ts` in scripts. If the call is aborted, the sleep rejects with the reason. */
import { toDelay } from '../delay.js';
import type { SleepOptions } from '../sleep.js';
import { cancelOperation, waitFor, type Wake } from './pending-operations.js';
import { host } from './host.js';

export function sleep(ms: number, options: SleepOptions = {}): Promise<void> {
  const { signal } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(signal.reason as Error);
      return;
    }
    const delay = toDelay(ms);
    const wake: Wake = (error) => {
      signal?.removeEventListener('abort', abort);
      if (error === null) resolve();
      else reject(error);
    };
    const wait = waitFor(wake, (call, number) => host.timer(call, number, delay));
    const abort = () => {
      cancelOperation(wait);
      reject(signal!.reason as Error);
    };
    signal?.addEventListener('abort', abort, { once: true });
  });
}
