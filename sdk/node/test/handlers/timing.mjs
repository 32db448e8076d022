// Handlers whose end the test controls: each open request waits until another request opens its name.
import { router } from 'forebay';

const app = router();
export default app;
const gates = new Map();

export async function onStart(ctx) {
  await new Promise((resolve) => setTimeout(resolve, 1));
  ctx.state.started = 1;
  setInterval(() => ctx.log.debug('beat'), 2).unref();
  ctx.log.info('started');
}
export function onStop(ctx) {
  console.log(`stopped after ${ctx.state.runs} runs`);
}

app.get('/wait/:name', async ({ params }, ctx) => {
  ctx.state.runs = (ctx.state.runs ?? 0) + 1;
  await new Promise((resolve) => gates.set(params.name, resolve));
  return `opened ${params.name}`;
});
app.get('/open/:name', ({ params }) => {
  gates.get(params.name)();
  return 'open';
});
app.get('/signal', async (_request, ctx) => {
  ctx.log.info('waiting');
  await new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
  return { name: ctx.signal.reason.name, message: ctx.signal.reason.message, aborted: ctx.signal.aborted };
});
app.get('/late-signal', async (_request, ctx) => {
  ctx.log.info('waiting');
  await new Promise((resolve) => gates.set('late', resolve));
  return { aborted: ctx.signal.aborted };
});
app.post('/read', async (request, ctx) => {
  ctx.log.info('reading');
  await request.bytes();
});
app.get('/events', async function* (_request, ctx) {
  try {
    for (let n = 0; ; n++) {
      yield `event ${n}\n`;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  } finally {
    ctx.log.info('closed');
  }
});
app.get('/endless', async function* (_request, ctx) {
  try {
    for (;;) yield 'x'.repeat(1000);
  } finally {
    ctx.log.info('closed');
  }
});
let count = 0;
app.get('/count', () => ++count);
app.get('/state', (_request, ctx) => ({ ...ctx.state }));
// Prints how many pieces were requested.
app.get('/counted', async function* () {
  let pieces = 0;
  const telling = setInterval(() => process.stdout.write(`${pieces}\n`), 2);
  try {
    for (; ; pieces++) yield 'x'.repeat(1000);
  } finally {
    clearInterval(telling);
  }
});
// Keeps printing beats to standard output while the link is blocked.
app.get('/big', () => {
  setInterval(() => process.stdout.write('.'), 2).unref();
  return 'x'.repeat(1_000_000);
});
app.post('/leaves-reading', (request, ctx) => {
  request.bytes().catch((error) => ctx.log.info(error.message));
  return 'left';
});
app.get('/throw-later', () => {
  setTimeout(() => {
    throw new Error('thrown outside');
  }, 1);
  return 'fine';
});
app.get('/reject-later', () => {
  setTimeout(() => Promise.reject(new Error('rejected outside')), 1);
  return 'fine';
});
app.get('/exit', () => process.exit(3));
