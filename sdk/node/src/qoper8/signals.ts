/** On SIGINT and SIGTERM, stops all registered objects and then lets the signal have its usual effect. */

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
  // Unregister first, so that a second signal ends the program at once.
  for (const one of all) forget(one);
  const isAlone = process.listenerCount(signal) === 0;
  void Promise.allSettled(all.map((one) => one.stop())).then(() => {
    if (isAlone) process.kill(process.pid, signal);
  });
}
