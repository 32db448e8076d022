import { setTimeout as delay } from 'node:timers/promises';
import { forebay } from '../forebay.mjs';
import { runOpenLoop } from '../openloop/run.mjs';
import { treeRss_bytes } from '../proc.mjs';
import { stop } from '../processes.mjs';
import { atMost, row } from '../rows.mjs';
import { median } from '../stats.mjs';
import { runWrk } from '../wrk.mjs';

const PATH = '/slow?ms=1'; // about 900 requests/s from one worker: ten times that is still little work for the generator
const QUEUE_MAX = 256;
const TIMES = 10;
const RSS_EVERY_MS = 200;

/** Ten times the load that one worker can carry: the queue stays within its bound, the rest is refused at once, memory stays flat. */
export const overload = {
  name: 'overload',
  title: `${TIMES} times overload of one Node worker that blocks 1 ms a request, queue_max ${QUEUE_MAX}`,
  needsForebay: true,
  async run(context) {
    const subject = forebay(context.binary, 'Forebay under overload', { pool: { runtime: 'node', workers: 1, queue_max: QUEUE_MAX } });
    const runs = [];
    for (let number = 0; number < context.repeats; number += 1) {
      context.progress(`overload, run ${number + 1} of ${context.repeats}`);
      runs.push(await overloadOnce(context, subject));
    }
    const clean = runs.filter(({ flags }) => flags.length === 0);
    const of = runs.length;
    return {
      openLoop: runs,
      rows: [
        row({ what: 'p99 of accepted : (queue_max / rate)', bar: atMost(2), samples: clean.map((run) => run.p99_by_queue_time), of }),
        row({ what: 'RSS of server and worker, last quarter : second quarter', bar: atMost(1.1), samples: clean.map((run) => run.rss_growth), of }),
        row({ what: 'refusals (503) without Retry-After', bar: atMost(0), samples: clean.map((run) => run.streams.work.without_retry_after), of }),
        row({ what: 'accepted under overload : rate without', samples: clean.map((run) => run.goodput), of }),
        row({ what: 'p99 of refusals', unit: 'ms', samples: clean.map((run) => run.streams.work.answers[503].p99), of }),
      ],
    };
  },
};

async function overloadOnce(context, side) {
  const server = await side.start(context.folder);
  try {
    const calm = await runWrk(server.url + PATH, { connections: 16, seconds: context.seconds });
    const streams = [{ name: 'work', path: PATH, rate: Math.round(TIMES * calm.requests_per_s) }];
    const plan = { warmup_s: context.warmup_s, seconds: context.openLoop_s, connections: 512, connections_max: 1500, streams };
    const memory = watchMemory(server, context.warmup_s * 1000);
    const outcome = await runOpenLoop(server, plan);
    const rss = await memory.end();
    return { side: side.name, ...outcome, ...judged(calm, outcome, rss) };
  } finally {
    await stop(server.process);
  }
}

/** The figures of one run. The rate is that without overload: a server that slows down under load gets no longer queue for it. */
function judged(calm, { streams, seconds, flags }, rss) {
  const { 200: accepted, 503: refused, ...others } = streams.work.answers;
  const own = [...flags];
  if (!accepted) own.push('nothing was accepted');
  if (!refused) own.push('nothing was refused');
  for (const [status, { count }] of Object.entries(others)) own.push(`${count} answers ${status}`);
  if (Object.values(calm.errors).some((count) => count > 0)) own.push('errors before the overload');
  const quarter = Math.floor(rss.length / 4);
  return {
    flags: own,
    rate_without_overload: calm.requests_per_s,
    queue_max: QUEUE_MAX,
    p99_by_queue_time: accepted ? accepted.p99 / ((1000 * QUEUE_MAX) / calm.requests_per_s) : null,
    goodput: accepted ? accepted.count / seconds / calm.requests_per_s : null,
    rss_bytes: rss,
    rss_growth: median(rss.slice(-quarter)) / median(rss.slice(quarter, 2 * quarter)),
  };
}

/** Reads the resident memory of a server's process tree again and again, from `after_ms` on, until `end` is called. */
function watchMemory(server, after_ms) {
  const samples = [];
  const over = new AbortController();
  const watching = (async () => {
    await delay(after_ms, null, { signal: over.signal });
    for (;;) {
      samples.push(treeRss_bytes(server.process.pid));
      await delay(RSS_EVERY_MS, null, { signal: over.signal });
    }
  })().catch((error) => {
    if (error.name !== 'AbortError') throw error;
  });
  return {
    async end() {
      over.abort();
      await watching;
      return samples;
    },
  };
}
