// What the pool tests ask of a handler. Tests and handlers meet in the configuration's folder, where the worker runs: a file is
// a gate that opens when the test writes it, and `ran` holds a line for everything that has happened.
import { spawn } from 'node:child_process';
import { appendFileSync, existsSync } from 'node:fs';
import { router, reply } from 'forebay';

const clock = new Int32Array(new SharedArrayBuffer(4));
/** Blocks the process. */
const block = (ms) => Atomics.wait(clock, 0, 0, ms);
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const note = (line) => appendFileSync('ran', `${line}\n`);

let running = 0;
let mostRunning = 0;

export default router()
  .get('/pid', () => String(process.pid))
  .post('/echo', async (request) =>
    reply(await request.bytes(), {
      headers: { 'content-type': request.headers.get('content-type') ?? 'application/octet-stream' },
    }),
  )
  // Blocks its process until the gate opens.
  .all('/hold/:gate/:name', ({ params }) => {
    note(`begin ${params.name}`);
    while (!existsSync(params.gate)) block(2);
    note(`end ${params.name}`);
    return `${params.name} ${process.pid}`;
  })
  // Waits for the gate and lets others run meanwhile; notes when it is told to stop.
  .all('/wait/:gate/:name', async ({ params }, { signal }) => {
    note(`begin ${params.name}`);
    mostRunning = Math.max(mostRunning, ++running);
    signal.addEventListener('abort', () => note(`abort ${params.name}`));
    while (!existsSync(params.gate) && !signal.aborted) await pause(2);
    running--;
    note(`end ${params.name}`);
    return { name: params.name, pid: process.pid, mostRunning };
  })
  // Gives way between its beginning and its end, so that only the server keeps others out.
  .post('/turn', async (request) => {
    note('begin');
    const body = await request.bytes();
    await pause(1);
    note('end');
    return body;
  })
  .post('/block/:ms', async (request) => {
    block(Number(request.params.ms));
    return request.bytes();
  })
  .all('/spin', () => {
    note('begin spin');
    for (;;);
  })
  .get('/spin-with-child', () => {
    const child = spawn('sleep', ['1000'], { stdio: 'ignore' });
    note(`child ${child.pid}`);
    for (;;);
  })
  .all('/exit/:code', ({ params }) => process.exit(Number(params.code)))
  .get('/kill-self', () => process.kill(process.pid, 'SIGKILL'))
  .all('/once/:name', ({ params }) => {
    // The first time, the process ends; the second time, there is an answer.
    const again = existsSync(params.name);
    appendFileSync(params.name, 'x');
    if (!again) process.exit(1);
    return `again ${params.name}`;
  })
  .get('/throw', () => {
    throw new Error('a secret about the inside');
  })
  .get('/reject', async () => {
    throw new Error('a secret about the inside');
  })
  .get('/throw-later', async () => {
    setTimeout(() => {
      throw new Error('nobody catches this');
    });
    await pause(60_000);
  })
  .get('/reject-unheard', async () => {
    Promise.reject(new Error('nobody hears this'));
    await pause(60_000);
  })
  .get('/bigint', () => ({ big: 1n }))
  .get('/circle', () => {
    const circle = {};
    circle.self = circle;
    return circle;
  })
  .get('/function', () => () => 'a function is no answer')
  .get('/memory', () => ({ pid: process.pid, rss: process.memoryUsage().rss }))
  .post('/grow/:mib', ({ params }, ctx) => {
    (ctx.state.kept ??= []).push(Buffer.alloc(Number(params.mib) << 20, 1));
    return String(process.pid);
  })
  .get('/env/:name', ({ params }) => ({ value: process.env[params.name] ?? null }));
