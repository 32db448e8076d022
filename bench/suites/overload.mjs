import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { forebay } from '../forebay.mjs';
import { runOpenLoop } from '../openloop/run.mjs';
import { treeRss_bytes } from '../proc.mjs';
import { stop } from '../processes.mjs';
import { atMost, row } from '../rows.mjs';
import { median } from '../stats.mjs';
import { runWrk } from '../wrk.mjs';

const QUEUE_MAX = 256;
const EXAMPLE = fileURLToPath(new URL('../../examples/workflows/workflows', import.meta.url));
/** Both have a capacity of 400 to 900 requests/s: ten times that is still little work for the generator. */
const WORKER = { what: 'a Node worker', path: '/slow?ms=1', options: { pool: { runtime: 'node', workers: 1, queue_max: QUEUE_MAX } } };
const WORKFLOW = {
  what: "Rengine's benchmark1 as a workflow",
  path: '/workflow/test_script_sdk_example',
  post: '{"userId":"u10010101","foo":"bar"}',
  options: { more: `[workflow]\npath = "${EXAMPLE}"\naccept_queue_max = ${QUEUE_MAX}\n\n[[route]]\npath = "/workflow/*"\nworkflow = {}`, connections_max: 4000 },
};
const TIMES = 10;
const RSS_EVERY_MS = 200;

/**
 * Ten times the capacity of a worker, or of the executors of workflows: the queue stays within its bound, the rest is rejected at once,
 * memory stays flat.
 */
export const overload = {
  name: 'overload',
  title: `${TIMES} times overload of one Node worker that blocks 1 ms a request, and of workflows; both queues have ${QUEUE_MAX} places`,
  needsForebay: true,
  async run(context) {
    const openLoop = [];
    const rows = [];
    for (const load of [WORKER, WORKFLOW]) {
      const side = forebay(context.binary, `Forebay, ${load.what}`, load.options);
      const runs = [];
      for (let number = 0; number < context.repeats; number += 1) {
        context.progress(`overload of ${load.what}, run ${number + 1} of ${context.repeats}`);
        runs.push(await overloadOnce(context, side, load));
      }
      openLoop.push(...runs);
      rows.push(...rowsOf(load.what, runs));
    }
    return { openLoop, rows };
  },
};

function rowsOf(what, runs) {
  const clean = runs.filter(({ flags }) => flags.length === 0);
  const of = runs.length;
  return [
    row({ what: `${what}: p99 of accepted : (places in the queue / rate)`, bar: atMost(2), samples: clean.map((run) => run.p99_by_queue_time), of }),
    row({ what: `${what}: RSS of all processes, last quarter : second quarter`, bar: atMost(1.1), samples: clean.map((run) => run.rss_growth), of }),
    row({ what: `${what}: refusals (503) without Retry-After`, bar: atMost(0), samples: clean.map((run) => run.streams.work.without_retry_after), of }),
    row({ what: `${what}: accepted under overload : rate without`, samples: clean.map((run) => run.goodput), of }),
    row({ what: `${what}: p99 of refusals`, unit: 'ms', samples: clean.map((run) => run.streams.work.answers[503].p99), of }),
  ];
}

async function overloadOnce(context, side, { path, post }) {
  const server = await side.start(context.folder);
  try {
    const calm = await runWrk(server.url + path, { connections: 16, seconds: context.seconds, post });
    const streams = [{ name: 'work', path, post, rate: Math.round(TIMES * calm.requests_per_s) }];
    const plan = { warmup_s: context.warmup_s, seconds: context.openLoop_s, connections: 512, connections_max: 1500, streams };
    const memory = watchMemory(server, context.warmup_s * 1000);
    const outcome = await runOpenLoop(server, plan);
    const rss = await memory.end();
    return { side: side.name, ...outcome, ...judged(calm, outcome, rss) };
  } finally {
    await stop(server.process);
  }
}

/** The figures of one run. The rate is that without overload: a server that slows down under load must not get a longer queue for it. */
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

/** Samples the resident memory of a server's process tree, from `after_ms` on, until `end` is called. */
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
