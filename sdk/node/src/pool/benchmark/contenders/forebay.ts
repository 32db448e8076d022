import { fileURLToPath } from 'node:url';
import { VERSION } from '../../../version.js';
import { Pool } from '../../index.js';
import type { HistogramSummary } from '../../histogram.js';
import type { Contender, Times } from '../contender.js';
import { OUTSTANDING_MAX, type Plan } from '../plan.js';

const TYPE = { type: 'benchmark' } as const;

/** Uses Forebay's default settings, except for the size of the queue and the plan's `concurrency`; if that is set, credit is 0. */
export async function startForebay(plan: Plan): Promise<Contender> {
  const limit = plan.concurrency === null ? {} : { concurrency: plan.concurrency, credit: 0 };
  const pool = new Pool({
    handlers: { benchmark: plan.handler ?? fileURLToPath(new URL('../handlers/default-handler.js', import.meta.url)) },
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
    resetTimes: () => pool.resetStats(),
    times: () => {
      const { wait, run } = pool.stats();
      return { wait: timesOf(wait), run: timesOf(run) };
    },
    close: () => pool.close(),
  };
}

function timesOf(summary: HistogramSummary): Times {
  return {
    p50_us: summary.p50 * 1000,
    p90_us: summary.p90 * 1000,
    p99_us: summary.p99 * 1000,
    p999_us: summary.p99_9 * 1000,
    max_us: summary.max * 1000,
  };
}
