// forebay/testing itself, and the parts of request and reply that need no worker; runs under Node and Bun.
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { describe, it } from 'node:test';
import fastify from 'fastify';
import { HttpError, Reply, json, reply, router, text } from '../dist/index.js';
import { testing } from '../dist/testing.js';

describe('the test kit', () => {
  it('runs the hooks once around the requests', async () => {
    const events = [];
    const app = router();
    app.onStart(async (ctx) => void events.push((ctx.state.started = 'start')));
    app.onStop(() => void events.push('stop'));
    app.get('/', (_request, ctx) => ctx.state);
    const tested = testing({ default: app, onStart: () => void events.push('module start'), onStop: () => void events.push('module stop') });
    assert.deepEqual(await (await tested.get('/')).json(), { started: 'start' });
    await Promise.all([tested.get('/'), tested.get('/')]);
    await tested.stop();
    assert.deepEqual(events, ['module start', 'start', 'stop', 'module stop']);
  });

  it('takes modules, routers, functions and fetch handlers', async () => {
    const handler = () => 'x';
    for (const form of [{ handler }, { default: handler }, handler, router().get('/', handler), { fetch: () => new Response('x') }, { default: { fetch: () => new Response('x') } }]) {
      assert.equal(await (await testing(form).get('/')).text(), 'x');
    }
    await assert.rejects(testing({ other: 1 }).get('/'), /exports no handler/);
  });

  it('names what is written for another server', async () => {
    const member = () => {};
    const server = createServer();
    // Express, Connect and Koa by the members that are looked at; the rest is real.
    for (const [exported, name] of [
      [Object.assign(() => {}, { handle: member, use: member, set: member }), 'an Express or Connect application'],
      [Object.assign(() => {}, { handle: member, use: member, stack: [] }), 'an Express or Connect application'],
      [{ callback: member, use: member, middleware: [] }, 'a Koa application'],
      [fastify(), 'a Fastify application'],
      [server, 'a server of `node:http`'],
      [(req, res) => res.end('x'), 'a function (req, res) of `node:http`'],
      [async function (request, response) { response.status(201).json({}); }, 'a function (req, res) of `node:http`'],
      [($req, _res, next) => server.emit('request', $req, _res, next) && next($req, _res), 'a function (req, res) of `node:http`'],
    ]) {
      await assert.rejects(testing({ default: exported }).get('/'), ({ message }) => message.includes(` exports ${name}, which cannot be a handler`));
    }
    for (const handler of [
      (req, res) => res.state.word ?? 'x',
      (request, ctx) => ((res) => res.end('x'))({ end: (text) => text, ctx }),
      async (req, res) => (await Promise.resolve(new Response('"x"')).then((res) => res.json())),
    ]) {
      assert.equal(await (await testing({ default: handler }).get('/')).text(), 'x');
    }
  });

  it('passes on query, headers, parameters, address, deadline and signal', async () => {
    const controller = new AbortController();
    const app = testing((request, ctx) => ({
      url: request.url, params: request.params, ip: request.ip, id: request.id, agent: request.headers.get('user-agent'),
      query: request.query.getAll('a'), remaining: ctx.remaining() > 900, late: ctx.deadline > new Date(), same: ctx.signal === controller.signal,
    }));
    const response = await app.get('/p?a=1&a=%3F?', { headers: { 'User-Agent': 'x' }, params: { id: 'ü' }, ip: '::1', deadlineMs: 1000, signal: controller.signal });
    assert.deepEqual(await response.json(), {
      url: 'http://localhost/p?a=1&a=%3F?', params: { id: 'ü' }, ip: '::1', id: 'test-1', agent: 'x', query: ['1', '??'], remaining: true, late: true, same: true,
    });
  });

  it('passes on bodies of every kind', async () => {
    const app = testing(async (request) => ({ type: request.headers.get('content-type'), text: await request.text() }));
    assert.deepEqual(await (await app.post('/', { json: [1] })).json(), { type: 'application/json', text: '[1]' });
    assert.deepEqual(await (await app.put('/', { body: new Uint8Array([97]) })).json(), { type: null, text: 'a' });
    assert.match((await (await app.post('/', { body: new URLSearchParams('a=1') })).json()).type, /urlencoded/);
  });

  it('shows logs and errors, and answers as the server would', async () => {
    const app = testing((request, ctx) => {
      ctx.log.warn('careful', { n: 1 });
      if (request.path === '/known') throw new HttpError(404, 'gone');
      throw new Error('secret');
    });
    assert.equal((await app.get('/known')).status, 404);
    const response = await app.get('/unknown');
    assert.equal(response.status, 500);
    assert.doesNotMatch(await response.text(), /secret/);
    assert.deepEqual(app.errors.map(({ message }) => message), ['secret']);
    assert.deepEqual(app.logs[0], { level: 'warn', message: 'careful', fields: { n: 1 } });
  });

  it('gives streams as they are produced and closes them when the reader stops', async () => {
    let closed = false;
    const app = testing(async function* () {
      try {
        for (let n = 0; ; n++) yield `${n},`;
      } finally {
        closed = true;
      }
    });
    const reader = (await app.get('/')).body.getReader();
    assert.equal(Buffer.from((await reader.read()).value).toString(), '0,');
    await reader.cancel();
    assert.ok(closed);
  });
});

describe('a fetch handler', () => {
  it('gets a web Request with the body, and the context', async () => {
    const app = testing({
      async fetch(request, ctx) {
        assert.ok(request instanceof Request);
        return Response.json({ method: request.method, url: request.url, body: await request.text(), type: request.headers.get('content-type'), pool: ctx.worker.pool }, { status: 201 });
      },
    });
    const response = await app.post('/a?b=c', { json: { n: 1 } });
    assert.equal(response.status, 201);
    assert.deepEqual(await response.json(), { method: 'POST', url: 'http://localhost/a?b=c', body: '{"n":1}', type: 'application/json', pool: 'test' });
    const get = testing({ fetch: (request) => new Response(request.method, { headers: { 'x-a': 'b' } }) });
    assert.equal((await get.get('/')).headers.get('x-a'), 'b');
    assert.equal((await get.head('/')).status, 200);
  });
});

describe('replies', () => {
  it('take status and headers in every form', () => {
    for (const headers of [{ 'X-A': '1', b: ['2', '3'], c: 4 }, [['X-A', '1'], ['b', '2'], ['b', '3'], ['c', '4']]]) {
      const made = json(null, { status: 202, headers });
      assert.ok(made instanceof Reply);
      assert.equal(made.status, 202);
      assert.deepEqual(made.headers, ['x-a', '1', 'b', '2', 'b', '3', 'c', '4']);
    }
    assert.deepEqual(text('x', { headers: new Headers({ A: 'b' }) }).headers, ['a', 'b']);
  });

  it('let reply() change what another reply says', async () => {
    const changed = reply(json({ a: 1 }, { status: 201, headers: { 'x-a': '1', 'x-b': '2' } }), { status: 202, headers: { 'x-a': '3' } });
    assert.equal(changed.status, 202);
    assert.deepEqual(changed.headers, ['x-a', '3', 'x-b', '2']);
    const response = await testing(() => reply({ a: 1 }, { headers: { 'content-type': 'application/ld+json' } })).get('/');
    assert.equal(response.headers.get('content-type'), 'application/ld+json');
    assert.equal((await testing(() => reply(null, { status: 303 })).get('/')).status, 303);
  });

  it('refuse what HTTP does not allow', () => {
    assert.throws(() => json(1, { headers: { 'a b': 'c' } }), /"a b" is not a header name/);
    assert.throws(() => json(1, { headers: { a: 'b\nc' } }), /characters HTTP does not allow/);
    assert.throws(() => json(1, { headers: { a: '€' } }), /characters HTTP does not allow/);
    assert.throws(() => json(1, { headers: { a: 'x'.repeat(65_600) } }), /at most 65536/);
    for (const status of [100, 600, 200.5]) assert.throws(() => json(1, { status }), /200 to 599/);
    assert.throws(() => new HttpError(302), /400 to 599/);
    assert.throws(() => json(() => 1), /cannot be written as JSON/);
  });
});
