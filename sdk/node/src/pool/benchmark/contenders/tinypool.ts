import { fileURLToPath } from 'node:url';
import type { Contender } from '../contender.js';
import { exported, importPeer } from '../packages.js';
import type { Plan } from '../plan.js';

interface Tinypool {
  run(message: unknown): Promise<unknown>;
  destroy(): Promise<void>;
}

/**
 * Tasks per worker if the plan does not say. From two threads: with its default of 1 32 to 34 k messages/s, with 16 65 to 90 k, with
 * 1,000 87 to 110 k; `useAtomics` made no difference to that beyond the noise, but saved a sixth of the main thread's time. From two
 * processes: 15 to 17 k, 52 to 57 k, 57 to 62 k.
 */
const TASKS_PER_WORKER = 1000;

export async function startTinypool(plan: Plan): Promise<Contender> {
  const { version, module } = await importPeer('tinypool', plan);
  const Tinypool = exported(module, 'Tinypool') as new (options: object) => Tinypool;
  const settings = {
    runtime: plan.kind === 'process' ? 'child_process' : 'worker_threads',
    useAtomics: true,
    concurrentTasksPerWorker: plan.concurrency ?? TASKS_PER_WORKER,
  };
  const pool = new Tinypool({
    filename: fileURLToPath(new URL('../handlers/task.js', import.meta.url)),
    minThreads: plan.workers,
    maxThreads: plan.workers,
    ...settings,
  });
  return {
    version,
    settings,
    submit: (message, ticket) => void pool.run(message).then(ticket.done, ticket.failed),
    close: () => pool.destroy(),
  };
}
