// Shared helpers of the forebay/qoper8 tests.
import { fileURLToPath } from 'node:url';
import { QOper8 } from '../dist/qoper8/index.js';

export const HANDLERS = fileURLToPath(new URL('./handlers', import.meta.url));
export const KINDS = ['process', 'thread'];

/** Starts a QOper8 that is stopped with the test; handlers/qoper8.mjs handles messages of type `do`. */
export function start(context, options) {
  const qoper8 = new QOper8({ handlersByMessageType: new Map([['do', { module: 'qoper8.mjs', path: HANDLERS }]]), ...options });
  context.after(() => qoper8.stop({ deadline: 0 }));
  return qoper8;
}

/** Resolves to the data of the next such event; keeps the program alive until then, which a pool alone does not. */
export function once(qoper8, event) {
  return new Promise((resolve) => {
    const alive = setInterval(() => {}, 1_000_000);
    qoper8.on(event, function listener(data) {
      clearInterval(alive);
      qoper8.off(event, listener);
      resolve(data);
    });
  });
}

/** Whether a process exists. */
export function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
