// The Fastify plugin, with both kinds of workers.
import assert from 'node:assert/strict';
import { once as onceOf } from 'node:events';
import { request } from 'node:http';
import { describe, it } from 'node:test';
import Fastify from 'fastify';
import plugin from '../dist/qoper8/fastify.js';
import { HANDLERS, once } from './qoper8s.mjs';

const handlerPath = `${HANDLERS}/qoper8-request.mjs`;

async function start(context, mode, options) {
  const fastify = Fastify();
  context.after(() => fastify.close());
  fastify.register(plugin, { mode, workerHandlersByRoute: [{ method: 'get', url: '/users/:id', handlerPath }, { method: 'get', url: '/files/*', handlerPath }], ...options });
  fastify.get('/local', () => ({ local: true }));
  await fastify.ready();
  return fastify;
}

for (const mode of ['worker_thread', 'child_process']) {
  describe(`the plugin for Fastify with mode ${mode}`, () => {
    it('gives a handler the request, and a client its reply', async (context) => {
      const fastify = await start(context, mode, { onStartup: { module: 'qoper8-startup.mjs', path: HANDLERS, arguments: { greeting: 'hi' } } });
      const response = await fastify.inject({ url: '/users/7?full=1', headers: { host: 'example.org', cookie: 'a=1' } });
      assert.equal(response.statusCode, 200);
      assert.match(response.headers['content-type'], /^application\/json/);
      const { data, greeting, ...rest } = response.json();
      assert.deepEqual([greeting, rest], ['hi', {}]);
      const { hostname, ...others } = data;
      assert.match(hostname, /^example\.org/);
      assert.deepEqual(others, {
        method: 'GET',
        query: { full: '1' },
        params: { id: '7' },
        headers: { host: 'example.org', cookie: 'a=1', 'user-agent': 'lightMyRequest' },
        ip: '127.0.0.1',
        protocol: 'http',
        url: '/users/7?full=1',
        routerPath: '/users/:id',
      });
      assert.deepEqual((await fastify.inject('/files/a/b.txt')).json().data.params, { '*': 'a/b.txt' });
      assert.deepEqual((await fastify.inject('/local')).json(), { local: true });
    });

    it('keeps handlers of one path apart by their methods', async (context) => {
      const { fastify } = await both(context, mode);
      assert.equal((await fastify.inject('/thing')).json().data.method, 'GET');
      const posted = await fastify.inject({ method: 'POST', url: '/thing', payload: { name: 'Ada' } });
      assert.deepEqual(posted.json(), { echo: { name: 'Ada' } });
      assert.equal((await fastify.inject({ method: 'DELETE', url: '/thing' })).statusCode, 404);
    });

    it('answers what a handler says, with its status and its headers', async (context) => {
      const fastify = await start(context, mode);
      const answers = [];
      for (const what of ['error', 'coded', 'response', 'nonsense']) {
        const response = await fastify.inject(`/users/7?do=${what}`);
        answers.push([response.statusCode, response.json(), response.headers.location]);
      }
      assert.deepEqual(answers, [
        [400, { error: 'no such user', about: '7' }, undefined],
        [410, { error: 'it is gone' }, undefined],
        [201, { made: true }, '/users/7'],
        [200, { made: true }, undefined],
      ]);
    });

    it('answers with a status that tells the truth, and with nothing of what happened inside', async (context) => {
      const fastify = await start(context, mode, { handlerTimeout: 300 });
      const headers = { authorization: 'Bearer 4711' };
      const thrown = await fastify.inject({ url: '/users/7?do=throw', headers });
      assert.deepEqual([thrown.statusCode, thrown.json()], [500, { error: 'the handler failed' }]);
      const ended = await fastify.inject({ url: '/users/7?do=exit', headers });
      assert.deepEqual([ended.statusCode, ended.json()], [502, { error: 'the worker ended while it ran the request' }]);
      const late = await fastify.inject({ url: '/users/7?do=block', headers });
      assert.deepEqual([late.statusCode, late.json()], [504, { error: 'the handler took too long' }]);
      assert.equal((await fastify.inject('/users/7')).statusCode, 200);
    });

    it('answers 413 for a body that is too long, before any worker sees it', async (context) => {
      const { fastify } = await both(context, mode, { bodyLimit: 100 });
      const response = await fastify.inject({ method: 'POST', url: '/thing', payload: { name: 'x'.repeat(200) } });
      assert.equal(response.statusCode, 413);
      assert.deepEqual((await fastify.qoper8.getStats()).main_process.noOfMessages, 0);
    });

    it('answers 503 with Retry-After when the queue is full, when no worker starts, and when it is stopped', async (context) => {
      const fastify = await start(context, mode, { maxQueueLength: 1 });
      assert.equal((await fastify.inject('/users/7')).statusCode, 200);
      const all = await Promise.all(Array.from({ length: 6 }, () => fastify.inject('/users/7?do=wait&ms=100')));
      const full = all.filter(({ statusCode }) => statusCode === 503);
      assert.equal(full.length, 4);
      assert.deepEqual([full[0].headers['retry-after'], full[0].json()], ['1', { error: 'too many requests wait' }]);
      await fastify.qoper8.stop();
      const stopped = await fastify.inject('/users/7');
      assert.deepEqual([stopped.statusCode, stopped.headers['retry-after'], stopped.json()], [503, '1', { error: 'the server stops' }]);
      const broken = await start(context, mode, { onStartup: { module: 'qoper8-startup.mjs', path: HANDLERS, arguments: { fail: 'no database' } } });
      const response = await broken.inject('/users/7');
      assert.deepEqual([response.statusCode, response.headers['retry-after'], response.json()], [503, '1', { error: 'no worker is ready' }]);
    });

    it('answers 500 when a handler cannot be loaded, and says where only to the log', async (context) => {
      const fastify = await start(context, mode, { workerHandlersByRoute: [{ method: 'get', url: '/x', handlerPath: 'nowhere/there.mjs' }] });
      const response = await fastify.inject('/x');
      assert.deepEqual([response.statusCode, response.json()], [500, { error: 'the handler failed' }]);
    });

    it('gives up what the client does not wait for', async (context) => {
      const fastify = await start(context, mode);
      const url = new URL(await fastify.listen({ port: 0, host: '127.0.0.1' }));
      for (const [what, event] of [['never', 'replyReceived'], ['silence', 'sentToWorker']]) {
        const begun = once(fastify.qoper8, event);
        const client = request({ host: url.hostname, port: url.port, path: `/users/7?do=${what}` });
        client.on('error', () => {});
        client.end();
        await begun;
        client.destroy();
        // The only worker is free again, or was replaced.
        assert.equal((await fastify.inject('/users/7')).statusCode, 200);
      }
    });

    it('ends its workers when the server is closed, after what they run is answered', async (context) => {
      const fastify = await start(context, mode);
      const url = new URL(await fastify.listen({ port: 0, host: '127.0.0.1' }));
      const sent = once(fastify.qoper8, 'sentToWorker');
      const client = request({ host: url.hostname, port: url.port, path: '/users/7?do=wait&ms=300', agent: false });
      client.end();
      await sent;
      const stopped = once(fastify.qoper8, 'workerStopped');
      const [[response]] = await Promise.all([onceOf(client, 'response'), fastify.close()]);
      response.resume();
      assert.equal(response.statusCode, 200);
      assert.equal(await stopped, 0);
    });
  });
}

it('the plugin for Fastify says what is wrong with its options', async () => {
  await assert.rejects(Fastify().register(plugin, { mode: 'web_worker' }).ready(), /mode is 'worker_thread' or 'child_process', not "web_worker"/);
  await assert.rejects(Fastify().register(plugin, { workerHandlersByRoute: [{ method: 'get', url: '/x' }] }).ready(), /objects with method, url and handlerPath/);
});

/** GET and POST of one path with different handlers. */
async function both(context, mode, server) {
  const fastify = Fastify(server);
  context.after(() => fastify.close());
  const routes = [
    { method: 'get', url: '/thing', handlerPath },
    { method: 'POST', url: '/thing', handlerPath: `${HANDLERS}/qoper8-echo-body.mjs` },
  ];
  fastify.register(plugin, { mode, workerHandlersByRoute: routes });
  await fastify.ready();
  return { fastify };
}
