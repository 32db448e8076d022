// Handler modules written for mg_web; runs under Node and Bun.
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { HttpError } from '../dist/index.js';
import { Router, glsdb, mgdbx } from '../dist/mgweb/index.js';
import { testing } from '../dist/testing.js';
import { freshStore, withoutStore } from './stores.mjs';

const store = freshStore();

/** The handlers described by the original benchmarks. */
const router = new Router({ logging: true });
router.register('mgw-router/glsdb', { store });
router.register('mgw-router/mgdbx', { store, type: 'YottaDB' });
after(() => router.context.glsdb.close());

router.get('/mgweb/helloworld', () => ({ payload: { hello: 'world 123' } }));

router.get('/mgweb/user/:userId', (Request, ctx) => {
  const key = Request.params.userId;
  const person = new ctx.glsdb.node('Person.data');
  return { payload: { key, data: person.$(key).document } };
});

router.get('/mgweb/userx/:userId', (Request, ctx) => {
  ctx.person ??= new ctx.mgdbx.mglobal(ctx.mgdbx.db, 'Person');
  const key = Request.params.userId;
  return { payload: { key, data: { firstName: ctx.person.get('data', key, 'firstName'), lastName: ctx.person.get('data', key, 'lastName') } } };
});

router.post('/mgweb/save', (Request, ctx) => {
  const id = new ctx.glsdb.node('Person.nextId').increment();
  new ctx.glsdb.node('Person.data').$(id).document = { firstName: Request.body.firstName, lastName: Request.body.lastName };
  return { payload: { saved: true, id } };
});

router.post('/mgweb/savep', (Request, ctx) => {
  const person = new ctx.glsdb.node('Person').proxy;
  const id = person.nextId._increment();
  person.data[id] = { firstName: Request.body.firstName, lastName: Request.body.lastName };
  return { payload: { saved: true, id } };
});

router.post('/mgweb/savep2', (Request, ctx) => {
  const person = new ctx.glsdb.node('Person').proxy;
  person.nextId._lock();
  person.nextId++;
  const id = person.nextId.valueOf();
  person.nextId._unlock();
  person.data[id] = { firstName: Request.body.firstName };
  return { payload: { saved: true, id } };
});

router.get('/use', (_, ctx) => {
  const { use } = ctx.mgdbx;
  return { payload: { same: use('Person', 'data') === use('Person', 'data'), name: use('Person', 'data').get(1, 'firstName'), type: ctx.mgdbx.type } };
});

const app = testing({ handler: router.handler() });
const rob = { firstName: 'Rob', lastName: 'Tweed' };
const json = async (response) => (await response).json();

describe('a router of mg_web', () => {
  it('runs the handlers of the founding benchmarks', async () => {
    assert.deepEqual(await json(app.get('/mgweb/helloworld')), { hello: 'world 123' });
    assert.deepEqual(await json(app.get('/mgweb/user/1')), { key: '1', data: '' });
    assert.deepEqual(await json(app.post('/mgweb/save', { json: rob })), { saved: true, id: '1' });
    assert.deepEqual(await json(app.get('/mgweb/user/1')), { key: '1', data: rob });
    assert.deepEqual(await json(app.get('/mgweb/userx/1')), { key: '1', data: rob });
    assert.deepEqual(await json(app.post('/mgweb/savep', { json: rob })), { saved: true, id: '2' });
    assert.deepEqual(await json(app.post('/mgweb/savep2', { json: rob })), { saved: true, id: 3 });
    assert.deepEqual(store.get('Person'), { data: { 1: rob, 2: rob, 3: { firstName: 'Rob' } }, nextId: 3 });
    assert.deepEqual(await json(app.get('/mgweb/userx/9')), { key: '9', data: { firstName: '', lastName: '' } });
    assert.deepEqual(await json(app.get('/use')), { same: true, name: 'Rob', type: 'YottaDB' });
  });

  it('gives handlers a plain request', async () => {
    const plain = new Router();
    for (const method of ['get', 'post', 'put', 'delete', 'patch', 'options']) {
      plain[method]('/echo/:name/*', function (Request, ctx) {
        assert.equal(this, plain);
        assert.equal(ctx, plain.context);
        const { method, url, routerPath, params, query, body, headers, ip, hostname, protocol } = Request;
        return { payload: { method, url, routerPath, params, query, body, headers, ip, hostname, protocol } };
      });
    }
    const echo = testing({ handler: plain.handler });
    const seen = await json(echo.post('/echo/a%20b/c/d?x=1&y=2&x=3', { json: { a: 1 }, headers: { cookie: 'c=1', 'x-own-header': 'é', accept: '*/*' } }));
    assert.deepEqual(seen.params, { name: 'a b', '*': 'c/d' });
    assert.deepEqual(seen.query, { x: '3', y: '2' });
    assert.deepEqual([seen.method, seen.url, seen.routerPath, seen.body, seen.ip, seen.hostname, seen.protocol], ['POST', '/echo/a%20b/c/d', '/echo/:name/*', { a: 1 }, '127.0.0.1', 'localhost', 'http']);
    assert.deepEqual([seen.headers['Content-Type'], seen.headers['Content-Length'], seen.headers.Host, seen.headers.Accept, seen.headers.Cookie, seen.headers['X-Own-Header']], ['application/json', '7', 'localhost', '*/*', 'c=1', 'é']);
    const body = async (init) => (await json(echo.put('/echo/a/b', init))).body;
    assert.equal(await body({ body: '{broken', headers: { 'content-type': 'application/json' } }), '{broken');
    assert.deepEqual(await body({ body: '[1]', headers: { 'content-type': 'application/json; charset=utf-8' } }), [1]);
    assert.equal(await body({ body: '[1]', headers: { 'content-type': 'text/plain' } }), '[1]');
    assert.equal(await body({ body: '€ é' }), '€ é');
    for (const method of ['get', 'delete', 'patch', 'options']) {
      const { method: told, body: none } = await json(echo[method]('/echo/a/b'));
      assert.deepEqual([told, none], [method.toUpperCase(), '']);
    }
  });

  it('sends what handlers return', async () => {
    const made = new Router();
    const answers = {
      '/status': { payload: { ok: true }, status: 201 },
      '/headers': { payload: { ok: true }, headers: { Location: '/x', Connection: 'keep-alive' } },
      '/text': { payload: 'grüße', headers: { 'Content-Type': 'text/plain; charset=utf-8' } },
      '/quoted': { payload: 'text' },
      '/list': { payload: [1] },
      '/zero': { payload: 0 },
      '/none': { payload: null, status: 404 },
      '/nothing': undefined,
    };
    for (const [path, answer] of Object.entries(answers)) {
      made.get(path, () => answer);
      made.get(`/async${path}`, async () => answer);
    }
    const app = testing({ handler: made.handler() });
    for (const before of ['', '/async']) {
      const got = async (path) => {
        const response = await app.get(before + path);
        return [response.status, response.headers.get('content-type'), await response.text()];
      };
      assert.deepEqual(await got('/status'), [201, 'application/json', '{"ok":true}']);
      assert.deepEqual(await got('/text'), [200, 'text/plain; charset=utf-8', 'grüße']);
      assert.deepEqual(await got('/quoted'), [200, 'application/json', '"text"']);
      assert.deepEqual(await got('/list'), [200, 'application/json', '[1]']);
      assert.deepEqual(await got('/zero'), [200, 'application/json', '0']);
      assert.deepEqual((await got('/none')).filter((_, index) => index !== 1), [404, '']);
      assert.deepEqual((await got('/nothing')).filter((_, index) => index !== 1), [200, '']);
      const { headers } = await app.get(`${before}/headers`);
      assert.deepEqual([headers.get('location'), headers.get('connection'), headers.get('content-type')], ['/x', null, 'application/json']);
    }
  });

  it('answers what no route matches, and tells nobody but the log why a handler failed', async () => {
    const made = new Router();
    const errors = [];
    made.on('error', (error) => errors.push(error));
    made.on('error', () => assert.fail('one listener for each type'));
    made.get('/throws', () => { throw new Error('secret'); });
    made.get('/rejects', async () => { throw new Error('secret'); });
    made.get('/http', () => { throw new HttpError(418, 'short and stout'); });
    made.get('/cycle', () => { const payload = {}; payload.payload = payload; return { payload }; });
    const app = testing({ handler: made.handler() });
    for (const [method, path] of [['get', '/nowhere'], ['post', '/throws']]) {
      const response = await app[method](path);
      assert.deepEqual([response.status, await response.json()], [400, { error: 'Invalid Request' }]);
    }
    for (const path of ['/throws', '/rejects', '/cycle']) {
      const response = await app.get(path);
      assert.deepEqual([response.status, await response.json()], [500, { error: 'Error Running Handler' }]);
    }
    assert.deepEqual(errors.map(({ error }) => error), ['/throws', '/rejects', '/cycle'].map((path) => `Error running handler for GET ${path}`));
    assert.match(errors[0].caughtError, /secret/);
    assert.deepEqual(app.errors.map(({ message }) => /secret|circular|cyclic/.test(message)), [true, true, true]);
    assert.equal((await app.get('/http')).status, 418);
    assert.deepEqual([app.errors.length, app.logs.length], [3, 0]);
    made.off('error');
    await app.get('/throws');
    assert.equal(errors.length, 3);
  });

  it('logs what a handler that failed was asked, if told to', async () => {
    const made = new Router({ logging: true });
    made.get('/throws/:id', () => { throw new Error('secret'); });
    const app = testing({ handler: made.handler() });
    await app.get('/throws/7?full=1');
    assert.deepEqual(JSON.parse(JSON.stringify(app.logs)), [{
      level: 'error', message: 'Error running handler for GET /throws/7',
      fields: { route: '/throws/:id', params: { id: '7' }, query: { full: '1' } },
    }]);
    assert.equal(app.errors.length, 1);
  });

  it('streams events', async () => {
    const made = new Router();
    made.sse('/events', () => ({ payload: (async function* () { yield 'data: 1\n\n'; yield 'data: 2\n\n'; })() }));
    const response = await testing({ handler: made.handler() }).get('/events');
    assert.equal(response.headers.get('content-type'), 'text/event-stream');
    assert.equal(await response.text(), 'data: 1\n\ndata: 2\n\n');
  });

  it('keeps a bounded number of the globals that handlers use', () => {
    const made = new Router();
    made.register(mgdbx, { store });
    const { use } = made.context.mgdbx;
    const first = use('Person', 'first');
    for (let id = 0; id < 1000; id++) use('Person', id);
    assert.notEqual(use('Person', 'first'), first);
    assert.equal(use('Person', 'first'), use('Person', 'first'));
  });

  it('takes plugins by name or as functions, and says when it stops', async () => {
    const made = new Router();
    made.register(function (options) { this.context.own = options; }, { a: 1 });
    assert.deepEqual(made.context.own, { a: 1 });
    made.register(mgdbx, { store });
    assert.equal(made.context.mgdbx.db.defined('Nothing'), '0');
    assert.throws(() => glsdb.call(made, { store }), /one instance/);
    assert.throws(() => made.register('mgw-router/other'), /register takes/);
    withoutStore(() => assert.throws(() => made.register('mgw-router/mgdbx'), /no store/));
    assert.throws(() => made.route('TRACE', '/x', () => {}), /TRACE/);
    assert.throws(() => made.get('/x', null), /not a function/);
    let stopped = 0;
    made.on('stop', () => stopped++);
    const app = testing({ handler: made.handler() });
    await app.start();
    await app.stop();
    assert.equal(stopped, 1);
  });
});
