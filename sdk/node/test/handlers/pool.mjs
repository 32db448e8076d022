// The handlers of the pool tests.
import { execFileSync, spawn } from 'node:child_process';
import { closeSync, writeFileSync } from 'node:fs';
import { threadId } from 'node:worker_threads';
import { move } from '../../dist/pool/index.js';

/** A unique name of the worker. */
export const who = (_, ctx) => ctx.worker.id;
export const echo = (message) => message;
export const echoLater = async (message) => message;
export const worker = (_, ctx) => ({ ...ctx.worker, threadId, env: process.env.POOL_TEST ?? null, argv: process.argv.slice(2), execArgv: process.execArgv, cwd: process.cwd(), state: { ...ctx.state } });
export const type = (_, ctx) => ctx.type;

export const throws = ({ what }) => {
  throw what;
};
export const throwsError = ({ message, members }) => {
  throw Object.assign(new RangeError(message), members);
};
export const throwsOdd = (kind) => {
  if (kind === 'getter') {
    const error = new Error('has a getter');
    Object.defineProperty(error, 'bad', { enumerable: true, get: () => { throw new Error('not this one'); } });
    throw error;
  }
  if (kind === 'message') throw Object.defineProperty(new Error(), 'message', { get: () => { throw new Error('no message'); } });
  if (kind === 'cause') throw new Error('outer', { cause: Object.assign(new TypeError('inner'), { code: 'EINNER' }) });
  if (kind === 'circle') {
    const error = new Error('circle');
    error.cause = error;
    throw error;
  }
  if (kind === 'function') throw Object.assign(new Error('with a function'), { code: 'EFUN', call: () => 1 });
  if (kind === 'proxy') throw new Proxy(new Error('hidden'), { get() { throw new Error('trap'); }, getPrototypeOf() { throw new Error('trap'); } });
  if (kind === 'deep') throw Object.assign(new Error('deep'), { deep: { call: () => 1 }, code: 'EDEEP' });
  if (kind === 'text') throw { toString() { throw new Error('no text'); } };
};
export const throwsOddLater = async (kind) => throwsOdd(kind);
export const rejects = (message) => Promise.reject(new Error(message));
export const uncloneable = () => () => 1;
export const oddThenable = () => ({ get then() { throw new Error('a then that throws'); } });
export const oddReply = () => ({ get value() { throw new Error('a getter that throws'); } });
export const answersTwice = () => new Promise((resolve, reject) => {
  resolve('first');
  resolve('second');
  reject(new Error('third'));
});
export const rejectsLater = () => {
  Promise.reject(new Error('nobody waits for this'));
  return 'answered';
};

/** Writes a file to show that the handler is running. */
const begins = ({ file }) => file !== undefined && writeFileSync(file, String(process.pid));
export const never = (message) => {
  begins(message);
  return new Promise(() => {});
};
export const heeds = (message, ctx) => {
  begins(message);
  return new Promise((_, reject) => ctx.signal.addEventListener('abort', () => reject(ctx.signal.reason)));
};
export const blocks = (message) => {
  begins(message);
  for (;;);
};
export const waits = (ms) => new Promise((resolve) => setTimeout(resolve, ms, ms));
export const busy = (ms) => {
  for (const end = performance.now() + ms; performance.now() < end; );
  return ms;
};
export const inNativeCode = (message) => {
  begins(message);
  execFileSync('sleep', ['6']);
};
export const closesItsLink = () => {
  closeSync(3);
  return new Promise(() => {});
};
export const exits = ({ code = 3, line }) => {
  if (line !== undefined) process.stderr.write(`${line}\n`);
  process.exit(code);
};
export const killsItself = () => process.kill(process.pid, 'SIGKILL');
export const allocates = () => {
  const all = [];
  for (;;) all.push(new Array(100_000).fill(all.length));
};
export const answersAndExits = (bytes) => {
  setImmediate(() => process.exit(0));
  return 'x'.repeat(bytes);
};
export const spawns = () => {
  const child = spawn('sleep', ['600'], { stdio: 'ignore' });
  return { worker: process.pid, child: child.pid };
};

export const sends = async ({ parts, bytes = 0, fail, exit }, ctx) => {
  for (let part = 0; part < parts; part++) {
    await ctx.send(bytes === 0 ? { part } : { part, text: 'x'.repeat(bytes) });
  }
  if (exit !== undefined) {
    await new Promise((resolve) => setTimeout(resolve, 20));
    process.exit(exit);
  }
  if (fail !== undefined) throw new Error(fail);
  return { parts };
};
export const sendsAtOnce = ({ parts }, ctx) => {
  for (let part = 0; part < parts; part++) ctx.send(part);
  return 'done';
};
let sent = 0;
export const sendsForEver = async (_, ctx) => {
  for (sent = 0; !ctx.signal.aborted; ) {
    await ctx.send({ at: ++sent, text: 'x'.repeat(10_000) });
  }
  throw ctx.signal.reason;
};
export const sentSoFar = () => sent;
export const logs = (text, ctx) => ctx.log.info(text, { of: 'pool' });
export const remaining = (_, ctx) => ctx.remaining();
export const mutates = (message) => {
  message.list?.push('changed');
  return message;
};
export const sum = (bytes) => {
  let total = 0;
  for (const byte of bytes) total = (total + byte) % 65_521;
  return total;
};
export const large = (bytes) => ({ bytes: new Uint8Array(bytes).fill(7), text: 'é'.repeat(Math.floor(bytes / 4)) });

export default (message) => ({ default: message });
export const handler = (message) => ({ handler: message });

export const fillsShared = (shared) => {
  const words = new Int32Array(shared);
  Atomics.store(words, 0, 42);
  return move(shared);
};
export const speaks = ({ port }) => {
  port.postMessage('through the port');
  port.close();
  return 'spoken';
};
export const opens = () => {
  const { port1, port2 } = new MessageChannel();
  port1.postMessage('from the handler');
  port1.unref();
  return move({ port: port2 }, [port2]);
};
export const moves = (bytes) => {
  const buffer = new Uint8Array(bytes).fill(9).buffer;
  return move({ buffer, length: bytes }, [buffer]);
};
export const movesLater = async (bytes) => moves(bytes);
export const movesWrong = () => {
  const { buffer } = new Uint8Array(3);
  return move({ buffer, call: () => 1 }, [buffer]);
};
export const exitsWith = () => process.exit(6);
