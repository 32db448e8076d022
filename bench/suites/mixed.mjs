import { forebay } from '../forebay.mjs';
import { runOpenLoop } from '../openloop/run.mjs';
import { bunServe } from '../peers/bun.mjs';
import { stop } from '../processes.mjs';
import { atMost, row } from '../rows.mjs';

const WORKERS = 4;
const FAST = { name: 'helloworld', path: '/helloworld', rate: 5000 };
const SLOW = { name: 'slow', path: '/slow?ms=200', rate: 2 };

/** Fast requests next to slow ones that block their worker, in one pool: a fast one must not wait for a slow one. */
export const mixed = {
  name: 'mixed',
  title: `open loop, ${FAST.rate}/s fast and ${SLOW.rate}/s of 200 ms in one pool of ${WORKERS} Node workers`,
  needsForebay: true,
  async run(context) {
    const subject = forebay(context.binary, `Forebay, ${WORKERS} Node workers`, { pool: { runtime: 'node', workers: WORKERS } });
    const runs = await repeat(context, subject, [FAST, SLOW]);
    const floor = await repeat(context, bunServe, [FAST]);
    const p99 = { what: 'p99 of /helloworld', unit: 'ms' };
    return {
      openLoop: [...runs, ...floor],
      rows: [
        row({ ...p99, bar: atMost(20), samples: p99Of(runs), of: runs.length }),
        row({ ...p99, what: 'the same from Bun.serve without slow requests: the floor of this generator', samples: p99Of(floor), of: floor.length }),
      ],
    };
  },
};

async function repeat(context, side, streams) {
  const runs = [];
  for (let number = 0; number < context.repeats; number += 1) {
    context.progress(`${side.name}, open loop, run ${number + 1} of ${context.repeats}`);
    const server = await side.start(context.folder);
    try {
      const plan = { warmup_s: context.warmup_s, seconds: context.openLoop_s, connections: 64, connections_max: 1000, streams };
      const outcome = await runOpenLoop(server, plan);
      for (const [name, { answers }] of Object.entries(outcome.streams)) {
        for (const status of Object.keys(answers)) {
          if (status !== '200') outcome.flags.push(`${answers[status].count} answers ${status} to ${name}`);
        }
      }
      runs.push({ side: side.name, ...outcome });
    } finally {
      await stop(server.process);
    }
  }
  return runs;
}

function p99Of(runs) {
  return runs.filter(({ flags }) => flags.length === 0).map(({ streams }) => streams.helloworld.answers[200].p99);
}
