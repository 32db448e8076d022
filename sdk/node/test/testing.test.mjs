// forebay/testing itself, and the parts of request and reply that need no worker; runs under Node and Bun.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createServer } from 'node:http';
import { dirname } from 'node:path';
import { describe, it } from 'node:test';
import fastify from 'fastify';
import { HttpError, Reply, StoreError, json, reply, router, store, text } from '../dist/index.js';
import { open } from '../dist/store/index.js';
import { listener } from '../dist/node-http/index.js';
import { testing } from '../dist/testing.js';

const DIST = new URL('../dist', import.meta.url).href;

/** Runs a program in the runtime of this test. */
function ran(source, env = {}) {
  const { NODE_TEST_CONTEXT, FOREBAY_STORE, ...rest } = process.env;
  return spawnSync(process.execPath, ['-e', source], { encoding: 'utf8', env: { ...rest, ...env } });
}

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

  it('calls for a user, or for nobody', async () => {
    const user = { subject: 'Jürgen', kind: 'token', scopes: ['a'], claims: { email: 'j@example.org' } };
    for (const form of [(request) => json(request.user), { fetch: (_, env) => Response.json(env.user) }]) {
      const app = testing(form);
      const post = { user, body: 'x'.repeat(100) };
      assert.deepEqual(await (await app.post('/', post)).json(), user);
      assert.deepEqual(await (await app.get('/', { user: { subject: 'ada' } })).json(), { subject: 'ada', kind: 'jwt', scopes: [], claims: {} });
      assert.equal(await (await app.get('/')).json(), null);
    }
    const read = testing(async (request) => `${request.id} ${request.user?.subject} ${await request.text()}`);
    assert.equal(await (await read.post('/', { user, body: 'body' })).text(), 'test-1 Jürgen body');
  });

  it('takes modules, routers, functions and fetch handlers', async () => {
    const handler = () => 'x';
    for (const form of [{ handler }, { default: handler }, handler, router().get('/', handler), { fetch: () => new Response('x') }, { default: { fetch: () => new Response('x') } }]) {
      assert.equal(await (await testing(form).get('/')).text(), 'x');
    }
    await assert.rejects(testing({ other: 1 }).get('/'), /exports no handler/);
  });

  it('calls what is written for another server', async () => {
    const express = Object.assign((req, res) => res.end('x'), { handle() {}, use() {}, set() {} });
    const connect = Object.assign((req, res) => res.end('x'), { handle() {}, use() {}, stack: [] });
    const app = fastify();
    app.get('/', async () => 'x');
    for (const application of [
      express,
      connect,
      { callback: () => (req, res) => res.end('x'), use() {}, middleware: [] },
      app,
      createServer((req, res) => res.end('x')),
      { handler: (req, res) => res.end('x'), listen() {}, use() {} },
      (req, res) => res.end('x'),
      async function (request, response) { response.writeHead(200).end('x'); },
      ($req, _res, next) => express($req, _res, next),
      listener((first, second) => second.end('x')),
    ]) {
      const response = await testing({ default: application }).get('/');
      assert.deepEqual([response.status, await response.text()], [200, 'x'], String(application));
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

  it('prints what a handler threw, with its stack and causes', () => {
    const { status, stdout, stderr } = ran(`
      import { HttpError } from '${DIST}/index.js';
      import { testing } from '${DIST}/testing.js';
      const app = testing(function total({ path }) {
        if (path === '/known') throw new HttpError(404, 'gone');
        throw new Error('no total', { cause: new RangeError('a price is negative') });
      });
      console.log((await app.get('/known')).status, (await app.get('/total?of=7')).status);`);
    assert.deepEqual([status, stdout], [0, '404 500\n']);
    for (const part of [/^GET \/total\?of=7 failed:/, /error: no total/i, /at .*total/, /RangeError: a price is negative/]) assert.match(stderr, part);
    assert.doesNotMatch(stderr, /HttpError: gone|GET \/known/);
  });

  it('gives handlers an empty store each time, and removes it at the end', async () => {
    const app = router();
    app.put('/:name', ({ params }) => store.set('Test', params.name, 1));
    app.get('/:name', ({ params }) => ({ found: store.get('Test', params.name), open: open(store.path) === store }));
    app.delete('/:name', ({ params }) => store.transaction(() => store.delete('Test', params.name)));
    const first = testing(app);
    await first.put('/a');
    store.set('Test', 'b', 2);
    assert.deepEqual(await (await first.get('/b')).json(), { found: 2, open: true });
    assert.equal(await (await first.delete('/b')).json(), true);
    const { path } = store;
    const second = testing(app);
    assert.equal(existsSync(path), false);
    assert.deepEqual(await (await second.get('/a')).json(), { open: true });
    await first.stop();
    await second.put('/a');
    assert.equal(store.get('Test', 'a'), 1);
    const { path: last } = store;
    assert.ok(last !== path && existsSync(last));
    await second.stop();
    assert.equal(existsSync(last), false);
    assert.throws(() => store.get('Test'), (error) => error instanceof StoreError && error.code === 'no_store');
  });

  it('removes the store when the process exits, also in the middle of a transaction', () => {
    const { status, stdout, stderr } = ran(`
      import { store } from '${DIST}/index.js';
      import { testing } from '${DIST}/testing.js';
      testing(() => null);
      store.set('Test', 1);
      console.log(store.path);
      store.transaction(() => process.exit(3));`);
    assert.deepEqual([status, stderr], [3, '']);
    assert.match(stdout, /forebay-test-/);
    assert.equal(existsSync(dirname(stdout.trim())), false);
  });

  it('leaves the store alone that the environment names', () => {
    const kept = testing(() => null);
    store.set('Test', 'kept');
    const { stdout } = ran(
      `import { store } from '${DIST}/index.js';
      import { testing } from '${DIST}/testing.js';
      const app = testing(() => store.get('Test'));
      console.log(await (await app.get('/')).text());
      await app.stop();
      console.log(store.get('Test'));`,
      { FOREBAY_STORE: store.path },
    );
    assert.equal(stdout, 'kept\nkept\n');
    return kept.stop();
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
