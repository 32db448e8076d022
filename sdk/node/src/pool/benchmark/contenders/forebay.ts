import { fileURLToPath } from 'node:url';
import { VERSION } from '../../../version.js';
import { Pool } from '../../index.js';
import type { Contender, RunTimes } from '../contender.js';
import { OUTSTANDING_MAX, type Plan } from '../plan.js';

const TYPE = { type: 'benchmark' } as const;

/** With the settings that it has by itself, but for the room in its queue and what the plan says of messages that a worker has at a time: then it has none ahead, either. */
export async function startForebay(plan: Plan): Promise<Contender> {
  const limit = plan.concurrency === null ? {} : { concurrency: plan.concurrency, credit: 0 };
  const pool = new Pool({
    handlers: { benchmark: plan.handler ?? fileURLToPath(new URL('../handlers/usual.js', import.meta.url)) },
    size: { min: plan.workers, max: plan.workers },
    kind: plan.kind,
    queueMax: OUTSTANDING_MAX,
    queueBytesMax: Infinity,
    ...limit,
  });
  await pool.ready;
  return {
    version: VERSION,
    settings: limit,
    submit: (message, ticket) => void pool.run(message, TYPE).then(ticket.done, ticket.failed),
    resetRunTimes: () => pool.resetStats(),
    runTimes: () => {
      const { run } = pool.stats();
      const found: RunTimes = {
        p50_us: run.p50 * 1000,
        p90_us: run.p90 * 1000,
        p99_us: run.p99 * 1000,
        p999_us: run.p99_9 * 1000,
        max_us: run.max * 1000,
      };
      return run.count === 0 ? null : found;
    },
    close: () => pool.close(),
  };
}
