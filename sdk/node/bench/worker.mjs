// The cost of one job for a worker: keeps a fixed number of jobs in flight through socket and page, without a server, and prints
// jobs/s and the worker's CPU time per job.
//
//   node bench/worker.mjs [--runtime node|bun|both] [--in-flight 64] [--seconds 3] [--repeats 5] [--path /helloworld,/users/7]
//     [--handler FILE] [--store FOLDER] [--args=--cpu-prof]
//
// Several paths take turns in one worker, and each is compared with the first. The parent only copies prepared frames; it shares the
// machine's cores with the worker, so CPU time per job is the figure to trust.
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { END, Peer, TYPES, frame, requestPayload } from '../test/peer.mjs';

const { values: options } = parseArgs({
  options: {
    runtime: { type: 'string', default: 'both' },
    'in-flight': { type: 'string', default: '64' },
    seconds: { type: 'string', default: '3' },
    repeats: { type: 'string', default: '5' },
    path: { type: 'string', default: '/helloworld' },
    handler: { type: 'string', default: fileURLToPath(new URL('handler.mjs', import.meta.url)) },
    store: { type: 'string', default: '' },
    args: { type: 'string', default: '' },
  },
});
const CLAIMS = 1024, BELL = 16, HEAD = 32, TAIL = 48;
/** Headers of a request from a browser or wrk, after the server has added its own. */
const HEADERS = [['user-agent', 'bench/1'], ['accept', '*/*']];

/** CPU time of a process in microseconds, from the scheduler's nanosecond count. */
function cpuMicros(pid) {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1000;
}

async function run(runtime) {
  const inFlight = Number(options['in-flight']);
  const args = options.args === '' ? [] : options.args.split(' ');
  const env = options.store === '' ? {} : { FOREBAY_STORE: resolve(options.store) };
  const peer = new Peer();
  await peer.start({ runtime, handler: resolve(options.handler), args, env });
  const { words, link, bell } = peer;
  const series = options.path.split(',').map((path) => {
    const one = frame(TYPES.REQUEST, END, peer.generation, 0, 0, requestPayload({ path, route: path, headers: HEADERS }));
    return { path, one, batch: Buffer.concat(Array.from({ length: inFlight }, () => one)), results: [] };
  });
  let { one, batch } = series[0];
  let job = 0;
  let done = 0;
  let open = 0;
  bell.removeAllListeners('data');

  function offer(count) {
    for (let index = 0; index < count; index++) {
      job = (job % 0xffff_fffe) + 1;
      const slot = job % 4096;
      const at = index * one.length;
      batch.writeUInt32LE(job, at + 8);
      batch.writeUInt32LE(slot, at + 12);
      Atomics.store(words, CLAIMS + slot, (job << 2) | 1);
    }
    open += count;
    link.write(Buffer.from(batch.subarray(0, count * one.length)));
  }
  function take() {
    for (;;) {
      const tail = Atomics.load(words, TAIL) >>> 0;
      let head = Atomics.load(words, HEAD) >>> 0;
      let count = 0;
      while (head !== tail) {
        const offset = head & 262_143;
        const word = (20_480 + offset) >> 2;
        if ((words[word + 1] & 0xff) === TYPES.PAD) {
          head = (head + 262_144 - offset) >>> 0;
          continue;
        }
        if ((words[word + 4] & 0xffff) !== 200) throw new Error(`status ${words[word + 4] & 0xffff}`);
        count++;
        head = (head + ((16 + words[word] + 15) & ~15)) >>> 0;
      }
      Atomics.store(words, HEAD, head | 0);
      if (count > 0) {
        done += count;
        open -= count;
        offer(count);
      }
      Atomics.store(words, BELL, 1);
      if (Atomics.load(words, TAIL) === Atomics.load(words, HEAD)) return;
    }
  }
  bell.on('data', take);
  offer(inFlight);
  const wait = (seconds) => new Promise((resolve) => setTimeout(resolve, seconds * 1000));
  await wait(1);
  // With several paths, the first round is a warm-up.
  for (let repeat = series.length > 1 ? -1 : 0; repeat < Number(options.repeats); repeat++) {
    for (const each of series) {
      ({ one, batch } = each);
      if (series.length > 1) await wait(0.1);
      const [jobs, cpu, time] = [done, cpuMicros(peer.child.pid), performance.now()];
      await wait(Number(options.seconds));
      const count = done - jobs;
      const rate = count / ((performance.now() - time) / 1000);
      const cost = (cpuMicros(peer.child.pid) - cpu) / count;
      if (repeat >= 0) each.results.push({ rate, cost });
    }
  }
  const peak = /VmHWM:\s+(\d+) kB/.exec(readFileSync(`/proc/${peer.child.pid}/status`, 'utf8'))[1] / 1024;
  bell.removeListener('data', take);
  await peer.stop();
  const show = (results, key, digits) => {
    const list = results.map((each) => each[key]).sort((a, b) => a - b);
    const [low, middle, high] = [list[0], list[list.length >> 1], list.at(-1)];
    return `${middle.toFixed(digits)} (${low.toFixed(digits)} to ${high.toFixed(digits)})`;
  };
  for (const { path, results } of series) {
    const more = results.map(({ cost }, round) => ({ more: cost - series[0].results[round].cost }));
    console.log(
      `${peer.hello.runtime.padEnd(14)} ${path} in flight ${inFlight}: ${show(results, 'rate', 0)} jobs/s, ${show(results, 'cost', 2)} us CPU a job` +
        (results === series[0].results ? `, peak ${peak.toFixed(0)} MB` : `, ${show(more, 'more', 2)} more than the first`),
    );
  }
}

console.log(`${cpus().length} x ${cpus()[0].model}; ${options.repeats} repeats of ${options.seconds} s after 1 s of warm-up; median (range)`);
for (const runtime of options.runtime === 'both' ? ['node', 'bun'] : [options.runtime]) await run(runtime);
