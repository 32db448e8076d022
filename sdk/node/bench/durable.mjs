// Messages through a durable queue: how many a second with a thousand open at a time, the CPU time of the program for each, and how many one
// after the other. The store is in TMPDIR: on a disk each commit waits for a flush, in memory only the work counts.
//
//   node bench/durable.mjs [--dist DIR,DIR] [--messages 20000] [--repeats 5] [--durability group] [--options '{"kept":0}']
//
// Several builds of the SDK (`--dist`) take turns, each time in a process of its own. Minimum, median and maximum of the repeats are printed.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { cpus, tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const { values: options } = parseArgs({
  options: {
    dist: { type: 'string', default: fileURLToPath(new URL('../dist', import.meta.url)) },
    messages: { type: 'string', default: '20000' },
    repeats: { type: 'string', default: '5' },
    durability: { type: 'string', default: 'group' },
    options: { type: 'string', default: '{}' },
    child: { type: 'boolean', default: false },
  },
});
const OPEN = 1_000;
const ALONE = 200;

async function measure(dist, messages) {
  const { Pool } = await import(join(dist, 'pool/index.js'));
  const { DurableQueue } = await import(join(dist, 'pool/durable.js'));
  const { open } = await import(join(dist, 'store/index.js'));
  const folder = mkdtempSync(join(tmpdir(), 'forebay-durable-'));
  const store = open(folder, { durability: options.durability });
  const pool = new Pool({ handlers: { echo: { source: 'return message' } }, size: { min: 1, max: 1 } });
  const queue = new DurableQueue(pool, { store, ...JSON.parse(options.options) });
  await pool.ready;
  const one = async (number) => (await queue.enqueue({ number, text: 'what a message has' })).reply;
  const many = async (count) => {
    let sent = 0;
    await Promise.all(Array.from({ length: OPEN }, async () => {
      while (sent < count) await one(sent++);
    }));
  };
  await many(messages / 4);
  const [begin, before] = [performance.now(), process.cpuUsage()];
  await many(messages);
  const seconds = (performance.now() - begin) / 1_000;
  const { user, system } = process.cpuUsage(before);
  const alone = performance.now();
  for (let number = 0; number < ALONE; number++) await one(number);
  console.log(JSON.stringify({ 'a second': messages / seconds, 'us of CPU': (user + system) / messages, 'one after the other': ALONE / ((performance.now() - alone) / 1_000) }));
  await queue.close();
  await pool.close();
  store.close();
  rmSync(folder, { recursive: true });
}

if (options.child) await measure(options.dist, Number(options.messages));
else {
  const builds = options.dist.split(',').map((dist) => resolve(dist));
  console.log(`${process.version}, ${cpus()[0].model}, ${cpus().length} cores, ${tmpdir()}, ${options.durability}`);
  const results = new Map(builds.map((dist) => [dist, []]));
  for (let repeat = 0; repeat < Number(options.repeats); repeat++) {
    for (const dist of builds) {
      const args = [fileURLToPath(import.meta.url), '--child', '--dist', dist, ...['messages', 'durability', 'options'].flatMap((name) => [`--${name}`, options[name]])];
      results.get(dist).push(JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' })));
    }
  }
  for (const [dist, found] of results) {
    console.log(dist);
    for (const name of Object.keys(found[0])) {
      const sorted = found.map((each) => each[name]).sort((a, b) => a - b);
      console.log(`  ${name.padEnd(20)} ${[sorted[0], sorted[sorted.length >> 1], sorted.at(-1)].map((value) => value.toFixed(1).padStart(10)).join('')}`);
    }
  }
}
