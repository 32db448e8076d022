import { fileURLToPath } from 'node:url';
import type { Contender } from '../contender.js';
import { exported, importPeer } from '../packages.js';
import type { Plan } from '../plan.js';

interface Piscina {
  run(message: unknown): Promise<unknown>;
  destroy(): Promise<void>;
}

/**
 * Tasks per worker if the plan does not say. With its default of 1, Piscina answered 27 to 36 k messages/s from two workers, with
 * 8 40 to 61 k, with 64 43 to 65 k, with 1,000 46 to 67 k. `atomics` made no difference beyond the noise (1,000 tasks: `sync` 50 and
 * 67 k, `async` 52 and 46 k, `disabled` 50 and 58 k), so it stays at Piscina's default.
 */
const TASKS_PER_WORKER = 1000;

export async function startPiscina(plan: Plan): Promise<Contender> {
  const { version, module } = await importPeer('piscina', plan);
  const Piscina = exported(module, 'Piscina') as new (options: object) => Piscina;
  const settings = {
    atomics: 'sync',
    concurrentTasksPerWorker: plan.concurrency ?? TASKS_PER_WORKER,
    // It costs time, and this driver does its own measuring.
    recordTiming: false,
  };
  const pool = new Piscina({
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
