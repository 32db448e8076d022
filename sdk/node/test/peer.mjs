// A scripted server: starts a real worker, speaks the protocol with it, and has the other side of the shared page. Used by the tests
// and by bench/worker.mjs. The doorbell is a socket here, because Node cannot make an eventfd.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, ftruncateSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const TYPES = {
  PAD: 0, HELLO: 1, INIT: 2, READY: 3, FAILED: 4, DRAIN: 5, LOG: 6,
  REQUEST: 0x10, BODY: 0x11, WINDOW: 0x12, ABORT: 0x13, RESET: 0x14, RESPONSE: 0x20,
};
/** The runtimes to test; FOREBAY_TEST_RUNTIMES=node leaves out Bun. */
export const RUNTIMES = (process.env.FOREBAY_TEST_RUNTIMES ?? 'node,bun').split(',');
export const END = 1;
export const FAULT = 2;
const CONNECTION = 0x10;
const KINDS = [undefined, 'application/json', 'text/plain; charset=utf-8', 'application/octet-stream', 'text/html; charset=utf-8'];
/** The layout of the page, the same for all implementations. */
export const LAYOUT = JSON.parse(readFileSync(new URL('../../../protocol/vectors/page/layout.json', import.meta.url), 'utf8'));
const { page_bytes: PAGE_BYTES, outbox_offset: OUTBOX, outbox_bytes: OUTBOX_BYTES } = LAYOUT;
const [FORMAT, BELL, HEAD, TAIL, CLAIMS] = ['format', 'bell', 'outbox_head', 'outbox_tail', 'claims'].map((name) => LAYOUT[`${name}_offset`] / 4);

const dist = new URL('../dist/', import.meta.url);
export const BUN = fileURLToPath(new URL('../node_modules/bun/bin/bun.exe', import.meta.url));

/** The command line of a worker, as built by the server. */
export function workerCommand(runtime) {
  const program = fileURLToPath(new URL('worker.js', dist));
  return runtime === 'bun' ? [BUN, '--no-install', program] : [process.execPath, program];
}

export function pairs(list) {
  const parts = [];
  for (const [name, value] of list) {
    const sizes = Buffer.alloc(8);
    const bytes = [Buffer.from(name), Buffer.from(value, 'latin1')];
    sizes.writeUInt32LE(bytes[0].length, 0);
    sizes.writeUInt32LE(bytes[1].length, 4);
    parts.push(sizes, ...bytes);
  }
  return Buffer.concat(parts);
}

export function u32(value) {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

export function readPairs(bytes) {
  const list = [];
  for (let at = 0; at < bytes.length; ) {
    const name = at + 8, value = name + bytes.readUInt32LE(at), next = value + bytes.readUInt32LE(at + 4);
    list.push([bytes.toString('latin1', name, value), bytes.toString('latin1', value, next)]);
    at = next;
  }
  return list;
}

export function frame(type, flags, generation, job, slot, payload = Buffer.alloc(0)) {
  const bytes = Buffer.alloc(16 + payload.length);
  bytes.writeUInt32LE(payload.length, 0);
  bytes[4] = type;
  bytes[5] = flags;
  bytes.writeUInt16LE(generation, 6);
  bytes.writeUInt32LE(job, 8);
  bytes.writeUInt32LE(slot, 12);
  bytes.set(payload, 16);
  return bytes;
}

export function requestPayload(request) {
  const { method = 'GET', path = '/', query = '', route = '/*', params = [], headers = [], peer = '127.0.0.1', body = '', left = 30_000 } = request;
  const all = [['host', 'example.org'], ...headers];
  const parts = [Buffer.from(method), Buffer.from(path), Buffer.from(query), Buffer.from(route), pairs(params), pairs(all), Buffer.from(peer), Buffer.from('req-1')];
  const table = Buffer.alloc(36);
  table.writeUInt32LE(left, 0);
  parts.forEach((part, index) => table.writeUInt32LE(part.length, 4 + 4 * index));
  return Buffer.concat([table, ...parts, Buffer.from(body)]);
}

/** Resolves once the condition holds; fails after ten seconds. */
export async function until(condition) {
  const end = Date.now() + 10_000;
  while (!condition()) {
    if (Date.now() > end) throw new Error(`not within ten seconds: ${condition}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

export class Peer {
  generation = 7;
  hello = null;
  logs = [];
  beats = 0;
  /** Whether it empties the outbox when the doorbell rings. */
  takes = true;
  stderr = '';
  stdout = '';
  /** Received frames other than responses, for `expect`. */
  #frames = [];
  #watchers = [];
  #jobs = new Map();
  #nextJob = 1;
  #rest = Buffer.alloc(0);
  rings = 0;
  outboxFrames = 0;
  linkFrames = 0;

  /** Starts a worker that is ended with the test, however that ends. */
  static async start(test, options) {
    const peer = new Peer();
    test.after(() => peer.end());
    await peer.start(options);
    return peer;
  }

  /** Starts the worker; `handler` is the absolute path of its handler file. */
  async start({ runtime = 'node', handler = null, start = null, concurrency = 1, page = true, windowBytes = 262_144, env = {}, ready = true, args = [], cwd }) {
    this.folder = mkdtempSync(join(tmpdir(), 'forebay-peer-'));
    const file = openSync(join(this.folder, 'page'), 'w+');
    ftruncateSync(file, PAGE_BYTES);
    const addon = createRequire(import.meta.url)(fileURLToPath(new URL('forebay.node', dist)));
    const memory = addon.mapPage(file);
    this.words = new Int32Array(memory);
    this.memory = Buffer.from(memory);
    this.words[FORMAT] = LAYOUT.format;
    const [command, ...rest] = workerCommand(runtime);
    this.child = spawn(command, [...args, ...rest], {
      stdio: ['ignore', 'pipe', 'pipe', 'pipe', page ? file : 'ignore', page ? 'pipe' : 'ignore'],
      cwd,
      env: {
        PATH: process.env.PATH,
        HOME: this.folder,
        FOREBAY_PROTOCOL: '1',
        FOREBAY_LINK_FD: '3',
        FOREBAY_GENERATION: String(this.generation),
        ...(page ? { FOREBAY_PAGE_FD: '4', FOREBAY_BELL_FD: '5' } : {}),
        ...env,
      },
    });
    closeSync(file);
    this.exited = once(this.child, 'close').then(([code, signal]) => {
      rmSync(this.folder, { recursive: true, force: true });
      const error = new Error(`the worker ended with ${code ?? signal}: ${this.stderr}`);
      for (const { reject } of this.#jobs.values()) reject(error);
      for (const { reject } of this.#watchers.splice(0)) reject(error);
      return { code, signal };
    });
    this.child.stdout.on('data', (data) => (this.stdout += data));
    this.child.stderr.on('data', (data) => (this.stderr += data));
    this.link = this.child.stdio[3];
    this.link.on('data', (data) => this.#received(data));
    this.link.on('error', () => {});
    if (page) {
      this.bell = this.child.stdio[5];
      this.bell.on('data', () => {
        this.rings++;
        if (this.takes) this.takeOutbox();
      });
      this.bell.on('error', () => {});
      Atomics.store(this.words, BELL, 1);
    }
    this.hello = JSON.parse((await this.expect(TYPES.HELLO)).payload);
    const init = {
      protocol: 1, pool: 'api', worker: 3, generation: this.generation, handler, start, concurrency,
      window_bytes: windowBytes, inline_body_bytes: 65_536,
    };
    this.send(TYPES.INIT, 0, 0, 0, Buffer.from(JSON.stringify(init)));
    if (ready) await this.expect(TYPES.READY);
  }

  send(type, flags, job, slot, payload) {
    this.link.write(frame(type, flags, this.generation, job, slot, payload));
  }

  /** Resolves to the next frame of the type for which `test` holds, whether it has already arrived or not. */
  expect(type, test = () => true) {
    const index = this.#frames.findIndex((each) => each.type === type && test(each));
    if (index >= 0) return Promise.resolve(this.#frames.splice(index, 1)[0]);
    return new Promise((resolve, reject) => this.#watchers.push({ type, test, resolve, reject }));
  }

  /**
   * Offers a request and returns its job; `job.answer` resolves to status, headers, body and fault. A `revoked` request is
   * taken back before the worker can see it. With `tls` the request tells whether its client speaks that.
   */
  request(request, { slot, end = true, offer = true, revoked = false, split = false } = {}) {
    const number = this.#nextJob++;
    const job = { number, slot: slot ?? number % 4096, chunks: [] };
    job.answer = new Promise((resolve, reject) => Object.assign(job, { resolve, reject }));
    job.answer.catch(() => {});
    this.#jobs.set(number, job);
    if (this.bell !== undefined && offer) this.offer(job);
    if (revoked) this.revoke(job);
    const connection = request.tls === undefined ? [] : [0, 0, Number(request.tls), 0];
    const flags = (end ? END : 0) | (connection.length > 0 ? CONNECTION : 0);
    const bytes = frame(TYPES.REQUEST, flags, this.generation, number, job.slot, Buffer.concat([requestPayload(request), Buffer.from(connection)]));
    if (split) void this.#writeByBytes(bytes);
    else this.link.write(bytes);
    return job;
  }

  async #writeByBytes(bytes) {
    for (const byte of bytes) await new Promise((resolve) => this.link.write(Buffer.from([byte]), () => setImmediate(resolve)));
  }

  /** Whether such a frame has arrived and was not consumed by `expect`. */
  seen(type, test) {
    return this.#frames.some((each) => each.type === type && test(each));
  }

  offer(job) {
    Atomics.store(this.words, CLAIMS + job.slot, (job.number << 2) | 1);
  }

  isClaimed(job) {
    return Atomics.load(this.words, CLAIMS + job.slot) === ((job.number << 2) | 2);
  }

  /**
   * Resolves once the worker has handled everything sent so far. Its handlers log `beat` from a timer: between two beats,
   * the worker's event loop has read all available input; a third is awaited because the first may have been in transit already.
   */
  async settled() {
    await new Promise((resolve) => this.link.write(Buffer.alloc(0), resolve));
    const beats = this.beats + 3;
    await until(() => this.beats >= beats);
  }

  /** Sets whether the server is asleep, so that the worker must ring. */
  sleeps(asleep) {
    Atomics.store(this.words, BELL, asleep ? 1 : 0);
  }

  /** Revokes an offered job; false if the worker has claimed it. */
  revoke(job) {
    const offered = (job.number << 2) | 1;
    return Atomics.compareExchange(this.words, CLAIMS + job.slot, offered, (job.number << 2) | 3) === offered;
  }

  /** Offers a request and waits for its answer. */
  fetch(request) {
    return this.request(request).answer;
  }

  /** Asks the worker to end; resolves when it has. */
  async stop() {
    this.send(TYPES.DRAIN, 0, 0, 0);
    return this.exited;
  }

  /** Kills the worker, whatever it is doing, unless it has ended. */
  async end() {
    this.child?.kill('SIGKILL');
    await this.exited;
  }

  takeOutbox() {
    do {
      const tail = Atomics.load(this.words, TAIL) >>> 0;
      let head = Atomics.load(this.words, HEAD) >>> 0;
      while (head !== tail) {
        const offset = head % OUTBOX_BYTES;
        const at = OUTBOX + offset;
        const length = this.memory.readUInt32LE(at);
        if (this.memory[at + 4] === TYPES.PAD) {
          head = (head + OUTBOX_BYTES - offset) >>> 0;
          continue;
        }
        this.outboxFrames++;
        this.#frame(Buffer.from(this.memory.subarray(at, at + 16 + length)));
        head = (head + ((16 + length + 15) & ~15)) >>> 0;
      }
      Atomics.store(this.words, HEAD, head | 0);
      Atomics.store(this.words, BELL, 1);
    } while (Atomics.load(this.words, TAIL) !== Atomics.load(this.words, HEAD));
  }

  #received(data) {
    let bytes = this.#rest.length > 0 ? Buffer.concat([this.#rest, data]) : data;
    while (bytes.length >= 16 && bytes.length >= 16 + bytes.readUInt32LE(0)) {
      const size = 16 + bytes.readUInt32LE(0);
      this.linkFrames++;
      this.#frame(bytes.subarray(0, size));
      bytes = bytes.subarray(size);
    }
    this.#rest = bytes;
  }

  #frame(bytes) {
    const frame = {
      type: bytes[4], flags: bytes[5], generation: bytes.readUInt16LE(6),
      job: bytes.readUInt32LE(8), slot: bytes.readUInt32LE(12), payload: bytes.subarray(16),
    };
    if (frame.type === TYPES.LOG) {
      const line = { job: frame.job, ...JSON.parse(frame.payload) };
      if (line.message === 'beat') this.beats++;
      else this.logs.push(line);
      return;
    }
    const job = this.#jobs.get(frame.job);
    if (job !== undefined) this.#answer(job, frame);
    const index = this.#watchers.findIndex(({ type, test }) => type === frame.type && test(frame));
    if (index >= 0) this.#watchers.splice(index, 1)[0].resolve(frame);
    else this.#frames.push(frame);
  }

  #answer(job, { type, flags, payload }) {
    if (type === TYPES.RESPONSE) {
      const headers = payload.readUInt32LE(8);
      const list = readPairs(payload.subarray(12, 12 + headers));
      const kind = KINDS[payload[2]];
      if (kind !== undefined) list.unshift(['content-type', kind]);
      job.head = {
        status: payload.readUInt16LE(0), headers: list, fault: (flags & FAULT) !== 0, micros: payload.readUInt32LE(4),
        header: (name) => list.filter(([key]) => key === name).map(([, value]) => value).join(', '),
      };
      job.chunks.push(payload.subarray(12 + headers));
    } else if (type === TYPES.BODY) {
      job.chunks.push(payload);
    } else if (type === TYPES.RESET) {
      this.#jobs.delete(job.number);
      job.resolve({ ...job.head, reset: true, body: Buffer.concat(job.chunks) });
      return;
    } else {
      return;
    }
    if ((flags & END) === 0) return;
    this.#jobs.delete(job.number);
    const body = Buffer.concat(job.chunks);
    job.resolve({ ...job.head, body, text: body.toString(), json: () => JSON.parse(body.toString()) });
  }
}
