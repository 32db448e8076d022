// A handler on standard input and output. Run by stdio.test.mjs.
import { json, reply, router } from '../../dist/index.js';
import { callTql, serve } from '../../dist/stdio/index.js';

const app = router();
app.get('/quick', () => 'quick');
app.get('/late', () => new Promise((resolve) => setTimeout(resolve, 50, { late: true })));
app.get('/print', () => {
  console.log('by the console');
  process.stdout.write('by the stream\n');
  return 'printed';
});
app.get('/none', () => null);
app.get('/bytes', () => Uint8Array.of(255, 0));
app.get('/html', () => reply('<p>', { headers: { 'content-type': 'text/html; charset=utf-8' } }));
app.get('/pieces', () => reply(pieces(['one ', 'two']), { headers: { 'content-type': 'text/plain' } }));
app.get('/created', (request) => json({ a: request.query.get('a') }, { status: 201, headers: { 'x-a': '1' } }));
app.get('/throw', () => {
  throw new Error('on purpose');
});
app.get('/endless', () => reply(endless()));
app.get('/breaks', () => reply(breaks()));
app.post('/length', async (request) => ({ length: (await request.text()).length }));
app.get('/ask', () => callTql({ where: 1 }));
app.get('/log', (_, ctx) => {
  ctx.log.warn('low', { at: 7 });
  return 'logged';
});
app.onStop(() => process.stderr.write('stopped\n'));

async function* pieces(list) {
  for (const piece of list) {
    await new Promise((resolve) => setTimeout(resolve, 5));
    yield piece;
  }
}

async function* endless() {
  for (;;) yield Buffer.alloc(50_000);
}

async function* breaks() {
  yield Buffer.alloc(50_000);
  await new Promise((resolve) => setTimeout(resolve, 5));
  throw new Error('on purpose');
}

serve(app);
