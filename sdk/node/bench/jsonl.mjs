// The cost of one request for a controller that speaks JSON lines on standard input and output, apart from its handler: a child process
// gets lines as the server writes them, without the server, and its CPU time per request is printed.
//
//   node bench/jsonl.mjs [--runtime node|bun] [--dist DIR,DIR] [--in-flight 14] [--seconds 2] [--repeats 8]
//     [--path /helloworld] [--handler FILE] [--args=--cpu-prof]
//
// Several builds of the SDK (`--dist`) take turns, each in its own child process. Requests are sent in batches of `--in-flight`, the next
// batch when all of the previous one are answered, as a busy server with 20 connections does.
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cpus } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const { values: options } = parseArgs({
  options: {
    runtime: { type: 'string', default: 'node' },
    dist: { type: 'string', default: here('../dist') },
    'in-flight': { type: 'string', default: '14' },
    seconds: { type: 'string', default: '2' },
    repeats: { type: 'string', default: '8' },
    path: { type: 'string', default: '/helloworld' },
    handler: { type: 'string', default: here('handler.mjs') },
    args: { type: 'string', default: '' },
  },
});
const inFlight = Number(options['in-flight']);

/** A request line as `put_request` of the server writes it for wrk. */
function line(id) {
  return (
    `{"id":${id},"method":"GET","path":"${options.path}","query":"","route":"/*","peer":"127.0.0.1","remaining_ms":29999,` +
    `"request_id":"0a1b2c3d4e5f6071","params":{},"headers":[["host","127.0.0.1:8080"]],"body":""}\n`
  );
}

class Child {
  results = [];
  done = 0;
  #left = 0;
  #next = 1;
  #stops = null;
  #rest = '';

  constructor(dist) {
    this.dist = dist;
    const env = {
      FOREBAY_PROTOCOL: 'jsonl',
      FOREBAY_HANDLER: resolve(options.handler),
      FOREBAY_GENERATION: '1',
      FOREBAY_POOL: 'bench',
      FOREBAY_WORKER: '1',
      FOREBAY_CONCURRENCY: '32',
      FOREBAY_MESSAGE_BYTES_MAX: '1048576',
    };
    const program = options.runtime === 'bun' ? here('../node_modules/.bin/bun') : process.execPath;
    const args = [...(options.args === '' ? [] : options.args.split(' ')), resolve(dist, 'stdio/worker.js')];
    this.process = spawn(program, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'inherit'] });
    this.process.stdout.on('data', (bytes) => this.#take(bytes));
  }

  /** Keeps the child busy until `stop`. */
  start() {
    this.#offer();
  }

  stop() {
    return new Promise((stopped) => (this.#stops = stopped));
  }

  #offer() {
    let text = '';
    for (let index = 0; index < inFlight; index++) text += line(this.#next++);
    this.#left = inFlight;
    this.process.stdin.write(text);
  }

  #take(bytes) {
    const text = this.#rest + bytes.latin1Slice(0, bytes.length);
    let at = 0;
    for (let end = text.indexOf('\n'); end >= 0; end = text.indexOf('\n', at)) {
      // Every line must answer a request.
      if (!text.startsWith('{"id":', at) || text.includes('"status":', at)) throw new Error(text.slice(at, end));
      at = end + 1;
      this.#left--;
      this.done++;
    }
    this.#rest = text.slice(at);
    if (this.#left > 0) return;
    if (this.#stops === null) {
      this.#offer();
    } else {
      this.#stops();
      this.#stops = null;
    }
  }

  /** CPU time of all threads of the child, in microseconds. */
  cpuMicros() {
    const fields = readFileSync(`/proc/${this.process.pid}/stat`, 'utf8').split(') ')[1].split(' ');
    return (Number(fields[11]) + Number(fields[12])) * 10_000;
  }
}

const wait = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
const children = options.dist.split(',').map((dist) => new Child(dist));
console.log(`${cpus().length} x ${cpus()[0].model}; ${options.repeats} rounds of ${options.seconds} s after one of warm-up; median (range)`);
for (let round = -1; round < Number(options.repeats); round++) {
  for (const child of round % 2 === 0 ? children : [...children].reverse()) {
    const [done, cpu, time] = [child.done, child.cpuMicros(), performance.now()];
    child.start();
    await wait(Number(options.seconds));
    await child.stop();
    const count = child.done - done;
    const rate = count / ((performance.now() - time) / 1000);
    if (round >= 0) child.results.push({ rate, cost: (child.cpuMicros() - cpu) / count });
  }
}
for (const child of children) {
  child.process.stdin.end();
  const show = (key, digits) => {
    const list = child.results.map((each) => each[key]).sort((a, b) => a - b);
    return `${list[list.length >> 1].toFixed(digits)} (${list[0].toFixed(digits)} to ${list.at(-1).toFixed(digits)})`;
  };
  console.log(`${child.dist}: ${show('cost', 2)} us of CPU a request, ${show('rate', 0)} requests/s`);
}
