import { fileURLToPath } from 'node:url';
import type { Contender } from '../contender.js';
import { WORKERPOOL_VARIABLE } from '../handlers/variables.js';
import { exported, importPeer } from '../packages.js';
import type { Plan } from '../plan.js';

interface Workerpool {
  exec(method: string, parameters: unknown[]): PromiseLike<unknown>;
  terminate(force: boolean): PromiseLike<void>;
}

/** workerpool has no settings that make it faster: a worker has one task at a time. */
export async function startWorkerpool(plan: Plan): Promise<Contender> {
  const { version, module, entry } = await importPeer('workerpool', plan);
  process.env[WORKERPOOL_VARIABLE] = entry;
  const settings = { workerType: plan.kind };
  const makePool = exported(module, 'pool') as (script: string, options: object) => Workerpool;
  const pool = makePool(fileURLToPath(new URL('../handlers/workerpool.js', import.meta.url)), {
    minWorkers: plan.workers,
    maxWorkers: plan.workers,
    ...settings,
  });
  return {
    version,
    settings,
    submit: (message, ticket) => void pool.exec('benchmark', [message]).then(ticket.done, ticket.failed),
    close: async () => {
      await pool.terminate(true);
    },
  };
}
