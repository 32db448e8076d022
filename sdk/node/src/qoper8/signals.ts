/** On SIGINT and SIGTERM, stops all registered objects and then lets the signal have its usual effect. */

interface Stoppable {
  stop(): Promise<void>;
}

const SIGNALS = ['SIGINT', 'SIGTERM'] as const;
const stoppable = new Set<Stoppable>();

export function register(target: Stoppable): void {
  if (stoppable.size === 0) for (const signal of SIGNALS) process.on(signal, onSignal);
  stoppable.add(target);
}

export function unregister(target: Stoppable): void {
  if (!stoppable.delete(target) || stoppable.size > 0) return;
  for (const signal of SIGNALS) process.off(signal, onSignal);
}

function onSignal(signal: NodeJS.Signals): void {
  const all = [...stoppable];
  // Unregister first, so that a second signal ends the program at once.
  for (const target of all) unregister(target);
  const isAlone = process.listenerCount(signal) === 0;
  void Promise.allSettled(all.map((target) => target.stop())).then(() => {
    if (isAlone) process.kill(process.pid, signal);
  });
}
