// One route for each thing a handler may return or read.
import { createReadStream } from 'node:fs';
import { Readable } from 'node:stream';
import { HttpError, json, reply, router, text } from 'forebay';
import { Router } from 'forebay/mgweb';

const app = router();
export default app;

app.get('/object', () => ({ hello: 'world' }));
app.get('/array', () => [1, 2]);
app.get('/number', () => 7);
app.get('/string', () => 'grüße ✓');
app.get('/bytes', () => new Uint8Array([0, 1, 254, 255]));
app.get('/nothing', () => undefined);
app.get('/null', () => null);
app.get('/json', () => json('a string', { status: 201, headers: { 'x-a': ['1', '2'], location: '/x' } }));
app.get('/text', () => text('<p>', { headers: { 'content-type': 'text/html' } }));
app.get('/reply', () => reply(new Uint8Array([1, 2]), { status: 206, headers: { 'content-type': 'image/png' } }));
app.get('/response', () => {
  const headers = new Headers({ 'content-type': 'text/css' });
  headers.append('set-cookie', 'a=1');
  headers.append('set-cookie', 'b=2');
  return new Response('p {}', { status: 203, headers });
});
app.get('/web-stream', () => new Response('streamed').body);
app.get('/node-stream', () => Readable.from(['a', 'b', 'c']));
app.get('/file', () => createReadStream(new URL(import.meta.url)));
app.get('/generator', async function* () {
  yield 'one ';
  yield new TextEncoder().encode('two');
});
app.get('/async', async () => {
  // Measured by the clock: a timer counts from the last iteration of the event loop, and may fire up to a millisecond early.
  const end = performance.now() + 2;
  while (performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 1));
  return { async: true };
});
app.get('/thenable', () => ({ __proto__: { then: (resolve) => resolve('from a thenable') } }));
app.get('/size/:bytes', ({ params }) => 'x'.repeat(Number(params.bytes)));

app.get('/throws', () => {
  throw new Error('a secret');
});
app.get('/rejects', async () => {
  throw new TypeError('another secret');
});
app.get('/throws-nothing', () => {
  throw undefined;
});
app.get('/http-error', () => {
  throw new HttpError(409, 'taken', { headers: { 'retry-after': '3' }, extra: { field: 'email' } });
});
app.get('/read-response', async () => {
  const response = new Response('x');
  await response.text();
  return response;
});
app.get('/locked-response', () => {
  const response = new Response('x');
  response.body.getReader();
  return response;
});
app.get('/locked-stream', () => {
  const { body } = new Response('x');
  body.getReader();
  return body;
});
app.get('/no-iterator', () => ({
  __proto__: {
    [Symbol.asyncIterator]() {
      throw new TypeError('another secret');
    },
  },
}));
class Then {
  get then() {
    throw new TypeError('another secret');
  }
}
app.get('/throwing-then', () => new Then());
app.get('/thenable-throws', () => ({
  __proto__: {
    then() {
      throw new TypeError('another secret');
    },
  },
}));
app.get('/bad-extra', () => {
  throw new HttpError(409, 'taken', { extra: { n: 1n } });
});
app.get('/bigint', () => ({ n: 1n }));
app.get('/cycle', async () => {
  const a = {};
  a.a = a;
  return a;
});
app.get('/bad-header', () => json(1, { headers: { 'x-a': 'a\r\nb: c' } }));
app.get('/bad-piece', async function* () {
  yield 5;
});
app.get('/breaks-off', async function* () {
  yield 'x'.repeat(100_000);
  throw new Error('in the middle');
});

const mgweb = new Router();
mgweb.get('/mgweb/throws', () => {
  throw new Error('a secret of mg_web');
});
app.get('/mgweb/*', mgweb.handler);

app.all('/inspect/:id/*rest', (request, ctx) => ({
  method: request.method,
  url: request.url,
  path: request.path,
  route: request.route,
  params: request.params,
  tags: request.query.getAll('tag'),
  query: request.query.toString(),
  agent: request.headers.get('User-Agent'),
  accept: request.headers.get('accept'),
  headers: [...request.headers],
  cookies: request.cookies,
  ip: request.ip,
  id: request.id,
  worker: ctx.worker,
  deadline: ctx.deadline?.getTime() ?? null,
  remaining: ctx.remaining(),
}));
app.post('/echo', async (request) =>
  reply(await request.bytes(), { headers: { 'content-type': request.headers.get('content-type') ?? 'text/plain' } }),
);
app.post('/json', async (request) => ({ got: await request.json() }));
app.post('/text', async (request) => request.text());
app.post('/form', async (request) => {
  const { fields, files } = await request.form();
  return {
    fields: [...fields],
    files: files.map(({ field, name, type, bytes }) => [field, name, type, Buffer.from(bytes).toString('hex')]),
  };
});
app.post('/count', async (request) => {
  let bytes = 0;
  for await (const part of request.stream()) bytes += part.length;
  return { bytes };
});
app.post('/unread', () => 'not read');
app.post('/twice', async (request) => {
  await request.text();
  return request.text();
});
app.get('/noise', () => {
  console.log('{"not":"a frame"}\u0000\u0001');
  process.stdout.write(Buffer.alloc(100, 0x10));
  console.error('on standard error');
  return 'quiet';
});
app.get('/log', (_request, ctx) => {
  ctx.log.debug('one');
  ctx.log.warn('two', { n: 2 });
  ctx.log.error('three', { n: 3n });
  return 'logged';
});
