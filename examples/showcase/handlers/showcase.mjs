import { setTimeout as pause } from 'node:timers/promises';
import { HttpError, reply, router } from 'forebay';

/** Longest wait that /slow takes orders for. */
const SLOW_MS_MAX = 60_000;

const app = router();

const hello = () => ({ hello: 'world' });
app.get('/helloworld', hello);
app.get('/bun/helloworld', hello);

app.post('/echo', async (request) => {
  const type = request.headers.get('content-type') ?? 'application/octet-stream';
  return reply(await request.bytes(), { headers: { 'content-type': type } });
});

app.get('/slow', (request) => {
  const ms = Number(request.query.get('ms') ?? 100);
  if (!(ms >= 0 && ms <= SLOW_MS_MAX)) throw new HttpError(400, `ms is a number from 0 to ${SLOW_MS_MAX}`);
  // A handler may block: its worker has no other request meanwhile.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
  return { slept_ms: ms };
});

app.get('/spin', () => {
  for (;;);
});

app.get('/crash', () => process.exit(1));

app.get('/stream', async function* () {
  for (let chunk = 1; chunk <= 5; chunk += 1) {
    yield `chunk ${chunk} of 5\n`;
    await pause(100);
  }
});

export default app;
