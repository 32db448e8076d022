import { setTimeout as delay } from 'node:timers/promises';
import { exactRun, load } from '../exact.mjs';
import { forebay } from '../forebay.mjs';
import { send } from '../http.mjs';
import { runOpenLoop } from '../openloop/run.mjs';
import { allocated_bytes } from '../proc.mjs';
import { stop } from '../processes.mjs';
import { atMost, ELSEWHERE_SHARE_MAX, row } from '../rows.mjs';
import { LOCAL } from './bodies.mjs';

const CONNECTIONS = 20;
const NOTE = 'nobody has made an index of this';
const LOOK_EVERY_MS = 5;

const SECTIONS = `[store]
path = "data"

[store.access]
Item = { read = "public" }

[store.index.item-number]
records = "Item"
fields = ["number"]

[records]
examined_max = 10000000
rows_max = 10000000
answer_bytes_max = "1GiB"

[[route]]
path = "/tql"
tql = {}`;

/** NDJSON that seeds the store with `count` records, about 80 bytes each, in chunks of some thousands. */
function* items(count) {
  yield `{"path":["%Kind","Item"],"value":true}\n{"path":["%Ref"],"value":${count}}\n`;
  const lines = function* (from, line) {
    for (let start = from; start <= count; start += 10_000) {
      const numbers = Array.from({ length: Math.min(10_000, count - start + 1) }, (_, i) => start + i);
      yield numbers.map(line).join('');
    }
  };
  yield* lines(1, (number) => `{"path":["%Ref",${number}],"value":"Item"}\n`);
  yield* lines(1, (number) => `{"path":["Item",${number}],"document":${item(number)}}\n`);
}

const item = (number) => `{"kind":"Item","note":"${NOTE}","number":${number},"title":"Item ${number}"}`;
const rowOf = (number) => `{"id":${number},"data":${item(number)}}`;
const results = (rows) => `{"code":0,"results":[${rows}]}`;
const equal = (number) => `WHERE AND(EQ(kind 'Item') EQ(number ${number}))`;
/** Examines every record and matches none. */
const SCAN = "WHERE AND(EQ(kind 'Item') EQ(note 'something else'))";
/** Matches every record. */
const ALL = `WHERE AND(EQ(kind 'Item') EQ(note '${NOTE}'))`;

/** TQL statements over many records: one answered by an index, one that examines all records, one that returns all. */
export const tql = {
  name: 'tql',
  title: 'statements of TQL',
  needsForebay: true,
  async run(context) {
    const count = context.rows;
    context.progress(`${count.toLocaleString('en')} records and their index`);
    const server = await forebay(context.binary, 'Forebay', { more: SECTIONS, seed: items(count) }).start(context.folder);
    try {
      await check(server, equal(count), results(rowOf(count)));
      await check(server, SCAN, results(''));
      const found = await equality(context, server, count);
      const { rows, openLoop } = await scans(context, server, count);
      return { openLoop, rows: [...found, ...rows, ...(await everything(context, server, count))] };
    } finally {
      await stop(server.process);
    }
  },
};

async function check(server, statement, body) {
  const answer = await send('POST', `${server.url}/tql`, statement, 'text/plain');
  if (answer.status !== 200 || answer.body !== body) throw server.process.failure(`answered ${statement} with ${answer.status} ${answer.body.slice(0, 300)}`);
}

/** Any of the records by the indexed field, compared with /local. */
async function equality(context, server, count) {
  const asked = { path: '/tql', body: '~"results":[{"id":', post: equal(`{{random 1 ${count}}}`) };
  const { warmup_s, seconds, pairs } = context;
  const run = (load, connections) => exactRun(context.binary, server, { ...load, connections, keepAlive: true, warmup_s, seconds });
  const pair = async (number, connections) => {
    context.progress(`equality, pair ${number + 1} of ${pairs}, ${connections} connections`);
    if (number % 2 === 0) return { statement: await run(asked, connections), local: await run(LOCAL, connections) };
    const local = await run(LOCAL, connections);
    return { statement: await run(asked, connections), local };
  };
  const [many, one] = [[], []];
  for (let number = 0; number < pairs; number += 1) {
    many.push(await pair(number, CONNECTIONS));
    one.push(await pair(number, 1));
  }
  const difference = (pairs, metric, what) => {
    const clean = pairs.filter(({ statement, local }) => statement.flags.length === 0 && local.flags.length === 0);
    const notes = clean.some(({ statement, local }) => Math.max(statement.elsewhere_share, local.elsewhere_share) > ELSEWHERE_SHARE_MAX) ? ['(machine not quiet)'] : [];
    const samples = clean.map(({ statement, local }) => statement[metric] - local[metric]);
    return row({ what, unit: 'us', bar: atMost(50), samples, of: pairs.length, notes });
  };
  const amount = count.toLocaleString('en');
  return [
    difference(many, 'server_us_per_request', `CPU of an indexed equality among ${amount} records beyond that of /local, ${CONNECTIONS} connections`),
    difference(one, 'p50_us', 'median latency beyond that of /local, one connection'),
    row({ what: 'such statements, 20 connections', unit: '/s', samples: many.map(({ statement }) => statement.requests_per_s) }),
  ];
}

/** The effect of full scans, one at a time, on other requests. */
async function scans(context, server, count) {
  const [beside, alone, rates] = [[], [], []];
  for (let number = 0; number < context.repeats; number += 1) {
    context.progress(`scans, run ${number + 1} of ${context.repeats}`);
    const plan = { warmup_s: context.warmup_s, seconds: context.openLoop_s, connections: 20, connections_max: 200, streams: [{ name: 'local', path: '/local', rate: 1000 }] };
    alone.push(await runOpenLoop(server, plan));
    const scanning = load(context.binary, `${server.url}/tql`, {
      connections: 1,
      seconds: context.warmup_s + context.openLoop_s + 1,
      body: results(''),
      keepAlive: true,
      post: SCAN,
    });
    beside.push(await runOpenLoop(server, plan));
    const { requests, seconds } = await scanning;
    if (requests.failed > 0) beside.at(-1).flags.push(`${requests.failed} of ${requests.total} scans failed`);
    rates.push((requests.total * count) / seconds / 1e6);
  }
  const p99 = (what, runs, bar) => {
    const clean = runs.filter(({ flags }) => flags.length === 0);
    return row({ what, unit: 'ms', bar, samples: clean.map(({ streams }) => streams.local.answers[200].p99), of: runs.length });
  };
  return {
    openLoop: [...alone, ...beside].map((run) => ({ side: 'Forebay', ...run })),
    rows: [
      p99('p99 of /local at 1,000/s beside a scan of all records', beside, atMost(10)),
      p99('the same without a scan', alone),
      row({ what: 'records a scan looks at', unit: 'million/s', samples: rates }),
    ],
  };
}

/** Memory use while a response with all records is sent. */
async function everything(context, server, count) {
  const [grown, seconds, sizes] = [[], [], []];
  for (let number = 0; number < context.repeats; number += 1) {
    context.progress(`an answer of all records, run ${number + 1} of ${context.repeats}`);
    const before = allocated_bytes(server.process.pid);
    const began = performance.now();
    const streamed = stream(server, ALL);
    let [most, isOver] = [before, false];
    const over = streamed.finally(() => {
      isOver = true;
    });
    while (!isOver) {
      most = Math.max(most, allocated_bytes(server.process.pid));
      await Promise.race([delay(LOOK_EVERY_MS), over]);
    }
    const { bytes, rows } = await streamed;
    if (rows !== count) throw server.process.failure(`answered ${rows} of ${count} records`);
    seconds.push((performance.now() - began) / 1e3);
    sizes.push(bytes / 1e6);
    grown.push((most - before) / 1e6);
  }
  return [
    row({ what: `memory allocated for an answer of ${Math.round(sizes[0])} MB`, unit: 'MB', bar: atMost(8), samples: grown }),
    row({ what: 'rows of such an answer', unit: 'thousand/s', samples: seconds.map((taken) => count / taken / 1e3) }),
  ];
}

/** Reads a response as a stream to its end; returns its length and its number of rows. */
async function stream(server, statement) {
  const answer = await fetch(`${server.url}/tql`, { method: 'POST', body: statement });
  if (answer.status !== 200) throw server.process.failure(`answered ${statement} with ${answer.status}`);
  let [bytes, rows, rest] = [0, 0, ''];
  const mark = '{"id":';
  for await (const part of answer.body) {
    bytes += part.length;
    const text = rest + Buffer.from(part).toString('latin1');
    rows += text.split(mark).length - 1;
    rest = text.slice(-(mark.length - 1));
  }
  return { bytes, rows };
}
