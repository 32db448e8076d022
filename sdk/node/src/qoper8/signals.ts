/** SIGINT and SIGTERM stop what is there to be stopped, and then do what they would have done. */

interface Stoppable {
  stop(): Promise<void>;
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;
const stoppable = new Set<Stoppable>();

export function heed(one: Stoppable): void {
  if (stoppable.size === 0) for (const signal of SIGNALS) process.on(signal, onSignal);
  stoppable.add(one);
}

export function forget(one: Stoppable): void {
  if (!stoppable.delete(one) || stoppable.size > 0) return;
  for (const signal of SIGNALS) process.off(signal, onSignal);
}

function onSignal(signal: NodeJS.Signals): void {
  const all = [...stoppable];
  // A second signal finds nobody who waits: it ends the program at once.
  for (const one of all) forget(one);
  const isAlone = process.listenerCount(signal) === 0;
  void Promise.allSettled(all.map((one) => one.stop())).then(() => {
    if (isAlone) process.kill(process.pid, signal);
  });
}
