// One handler file for scripts and for pools, with everything a handler touches: each route is asked everywhere, and the answers are compared.
import { HttpError, json, messages, reply, router, sleep, store, text, type Context, type HttpRequest } from 'forebay';

interface Item {
  readonly id: number;
  name?: string;
}

const failure = async (work: () => unknown): Promise<string> => {
  try {
    await work();
    return 'no failure';
  } catch (error) {
    const { name, message } = error as Error;
    return `${name}: ${message}`;
  }
};

const app = router();
app.onStart((ctx) => {
  ctx.state.started = 'yes';
});

// Routing: paths, parameters and methods.
app.get('/', () => 'root');
app.get('/items/:id', ({ params }: HttpRequest<{ id: string }>): Item => ({ id: Number(params.id), name: params.id }));
app.get('/items/first', () => 'the first');
app.get('/files/*path', ({ params, path, method, route }) => ({ params, path, method, route }));
app.get('/two/:a/:b', ({ params }) => [params.a, params.b]);
app.all('/any', ({ method }) => ({ method }));
app.put('/put/:id', async (request) => ({ id: request.params.id, text: await request.text() }));
app.delete('/gone', () => null);

// Requests: queries, headers and bodies.
app.get('/query', ({ query, url }) => ({ all: [...query], a: query.getAll('a'), b: query.get('b'), has: query.has('c'), text: String(query), url }));
app.get('/headers', ({ headers, ip, id }) => ({ all: [...headers], x: headers.get('X-Multi'), list: headers.getAll('x-multi'), none: headers.get('none'), has: headers.has('HOST'), object: headers.toJSON(), ip, id }));
app.get('/cookies', ({ cookies }) => cookies);
app.post('/json', async (request) => ({ got: await request.json() }));
app.post('/text', async (request) => text(await request.text(), { status: 201 }));
app.post('/bytes', async (request) => (await request.bytes()).reverse());
app.post('/sum', async (request) => {
  let sum = 0;
  for await (const part of request.stream()) for (const byte of part) sum += byte;
  return sum;
});
app.post('/twice', async (request) => [await request.text(), await failure(() => request.text())]);
app.post('/form', async (request) => {
  const { fields, files } = await request.form();
  return { fields: [...fields], files: files.map(({ field, name, type, bytes }) => ({ field, name, type, text: new TextDecoder().decode(bytes) })) };
});

// Replies: every kind of value.
app.get('/reply/object', () => ({ b: 1, a: [null, true, 1.5, 'é😀', { nested: undefined }], date: new Date(0) }));
app.get('/reply/array', () => [1, [2]]);
app.get('/reply/null-prototype', () => Object.assign(Object.create(null), { a: 1 }));
app.get('/reply/string', () => 'grüße 😀');
app.get('/reply/empty', () => '');
app.get('/reply/number', () => 42);
app.get('/reply/boolean', () => false);
app.get('/reply/undefined', () => undefined);
app.get('/reply/bytes', () => new Uint8Array([0, 1, 254, 255]));
app.get('/reply/buffer', () => new Uint8Array([1, 2]).buffer);
app.get('/reply/promise', async () => ({ later: true }));
app.get('/reply/json', () => json('text', { status: 202, headers: { 'x-a': '1', 'set-cookie': ['a=1', 'b=2'] } }));
app.get('/reply/text', () => text('<p>', { headers: { 'content-type': 'text/html' } }));
app.get('/reply/redirect', () => reply(null, { status: 303, headers: { location: '/items/7' } }));
app.get('/reply/typed', () => reply(new Uint8Array([137, 80]), { headers: { 'content-type': 'image/png', 'cache-control': 'no-store' } }));
app.get('/reply/not-modified', () => reply(null, { status: 304, headers: { etag: '"a"' } }));
app.get('/reply/map', () => reply({ a: 1 }, { headers: new Map([['x-m', '1']]) }));
app.get('/reply/headers', () => reply({ a: 1 }, { headers: new Headers({ 'X-Web': 'yes', 'set-cookie': 'c=3' }) }));
app.get('/reply/response', () => new Response('web', { status: 202, headers: { 'content-type': 'text/plain', 'x-a': 'b' } }));
app.get('/reply/response-json', () => Response.json({ web: true }, { status: 201 }));
app.get('/reply/response-empty', () => new Response(null, { status: 204 }));
app.get('/reply/response-bytes', () => new Response(new Uint8Array([5, 6])));
app.get('/reply/response-of-response', async () => reply(await new Response('inner').text(), { status: 206 }));
app.get('/reply/class', () => new (class Point { x = 1; toJSON() { return { x: this.x }; } })());

// Thrown errors.
app.get('/error/http', () => { throw new HttpError(404, 'no such thing'); });
app.get('/error/extra', () => { throw new HttpError(422, 'not so', { headers: { 'x-why': 'because' }, extra: { field: 'name' } }); });
app.get('/error/plain', () => { throw new TypeError('a secret'); });
app.get('/error/later', async () => { await sleep(1); throw new HttpError(409); });
app.get('/error/value', () => { throw 'text'; });
app.get('/error/cycle', () => { const a: Record<string, unknown> = {}; a['a'] = a; return a; });
app.get('/error/bigint', () => ({ n: 1n }));
app.get('/error/symbol', () => Symbol('s'));
app.get('/error/header', () => reply('x', { headers: { 'a b': 'c' } }));
app.get('/error/status', () => reply('x', { status: 99 }));

// Streamed responses.
const letters = async function* () { yield 'a'; yield new TextEncoder().encode('b'); yield 'c'; };
app.get('/stream/at-once', () => letters());
app.get('/stream/later', async function () {
  return reply((async function* () { for (let i = 0; i < 3; i++) { await sleep(2); yield `line ${i}\n`; } })(), { headers: { 'content-type': 'text/plain' } });
});
app.get('/stream/web', () => new ReadableStream({ start(c) { c.enqueue(new TextEncoder().encode('web')); c.close(); } }));
app.get('/stream/long', () => (async function* () { for (let i = 0; i < 40; i++) yield String(i % 10).repeat(10_000); })());
app.get('/stream/empty', () => (async function* () {})());
app.get('/stream/fails', () => (async function* () { yield 'a'; throw new Error('at once'); })());
app.get('/stream/events', () => new Response(new ReadableStream({
  async pull(c) { await sleep(1); c.enqueue(new TextEncoder().encode('data: 1\n\n')); c.close(); },
}), { headers: { 'content-type': 'text/event-stream' } }));

// The context, and what of the web is there.
app.get('/ctx', (_, ctx: Context) => ({ state: ctx.state.started, aborted: ctx.signal.aborted, remaining: ctx.remaining() > 0, deadline: ctx.deadline instanceof Date, pool: ctx.worker.pool }));
app.get('/web', async () => {
  const url = new URL('/b?x=ä#h', 'https://example.org:443/a');
  url.searchParams.set('y', '1 2');
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode('abc'));
  const request = new Request(url, { method: 'POST', body: 'body', headers: { 'x-b': '2', 'X-A': '1' } });
  return {
    url: url.href,
    digest: [...new Uint8Array(digest)].slice(0, 4),
    clone: structuredClone({ map: [...new Map([[1, new Date(0)]])], set: [...new Set(['a'])] }),
    request: [request.method, [...request.headers].filter(([name]) => name.startsWith('x-')), await request.text()],
    base64: btoa('abc') + atob('YWJj'),
    aborted: await failure(() => AbortSignal.abort(new Error('stop')).throwIfAborted()),
    query: new URLSearchParams({ a: '1&2', b: 'é' }).toString(),
    invalid: URL.canParse('nowhere'),
    sleeps: await sleep(1),
  };
});

// Handlers of messages.
app.all('/messages/*', messages({
  add: ({ a, b }: { a: number; b: number }) => a + b,
  later: async (message: unknown, ctx) => { await sleep(1); return { type: ctx.type, message }; },
  nothing: () => undefined,
  parts: async (count: number, ctx) => {
    for (let part = 0; part < count; part++) await ctx.send({ part });
    return 'done';
  },
  atOnce: (count: number, ctx) => {
    for (let part = 0; part < count; part++) void ctx.send(part);
    throw new HttpError(409, 'no more');
  },
  refuses: () => { throw new HttpError(422, 'not like this'); },
  throws: () => { throw new Error('a secret'); },
}));

// Access to the store.
app.post('/store/:key', (request) => {
  const node = store.node('Suite', request.params.key);
  return store.transaction(() => {
    const before = node.document ?? null;
    node.layOver({ text: 'é', list: [1, 2.5, null], last: request.params.key });
    node.at('count').increment(2);
    return { before, after: node.document, count: node.at('count').value };
  });
});
app.get('/store/:key', ({ params }) => {
  const node = store.node('Suite', params.key);
  return { defined: node.defined(), document: node.document ?? null, json: node.json ?? null, next: node.next() ?? null, key: node.key };
});
app.post('/rolled-back', () => failure(() => store.transaction(() => { store.set('Suite', 'x', 1); throw new Error('no'); })));
app.delete('/store/:key', ({ params }) => { store.delete('Suite', params.key); return null; });

export default app;
