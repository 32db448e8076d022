// The interface used by programs written for QOper8.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once as onceOf } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import byDefault, { QOper8 } from '../dist/qoper8/index.js';
import { HANDLERS, KINDS, isAlive, once, start } from './qoper8s.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

for (const kind of KINDS) {
  describe(`QOper8 with workers of kind ${kind}`, () => {
    it('answers by promise, by callback, and nobody', async (context) => {
      const qoper8 = start(context, { kind });
      const handled = [];
      qoper8.on('replyReceived', ({ reply }) => handled.push(reply.data));
      assert.deepEqual(await qoper8.send({ type: 'do', do: 'echo', data: 1 }), { id: 0, data: 1, count: 1, qoper8: { finished: true } });
      qoper8.message({ type: 'do', do: 'echo', data: 2 });
      const [reply, workerId] = await new Promise((resolve) => qoper8.message({ type: 'do', do: 'echo', data: 3 }, (...args) => resolve(args)));
      assert.deepEqual([reply.data, workerId], [3, 0]);
      assert.deepEqual(handled, [1, 2, 3]);
      assert.equal(qoper8.getMessageCount(), 3);
      assert.match(qoper8.upTime(), /^0 days 0:00:0\d$/);
    });

    it('keeps the order of messages with one worker, which has one at a time', async (context) => {
      const qoper8 = start(context, { kind });
      const order = [];
      await Promise.all(Array.from({ length: 200 }, (_, n) => qoper8.send({ type: 'do', do: 'echo', data: n }).then(({ data, count }) => order.push([data, count]))));
      assert.deepEqual(order, Array.from({ length: 200 }, (_, n) => [n, n + 1]));
    });

    it('tells what happens to a message and to workers, to all who listen', async (context) => {
      const qoper8 = start(context, { kind });
      const heard = [];
      for (const event of ['workerStarted', 'QBackupAdd', 'addedToQueue', 'sentToWorker', 'replyReceived', 'QBackupDelete', 'workerStopped', 'stop', 'start']) {
        qoper8.on(event, function (data) {
          assert.equal(this, qoper8);
          heard.push([event, event.startsWith('QBackup') ? undefined : data]);
        });
      }
      const twice = [];
      const listener = (data) => twice.push(data);
      qoper8.on('mine', listener);
      qoper8.on('mine', listener);
      qoper8.on('mine', (data) => twice.push(-data));
      qoper8.emit('mine', 1);
      qoper8.off('mine', listener);
      qoper8.emit('mine', 2);
      qoper8.off('mine');
      qoper8.emit('mine', 3);
      assert.deepEqual(twice, [1, -1, -2]);
      const message = { type: 'do', do: 'echo', data: 5 };
      await qoper8.send(message);
      // This message finds an idle worker.
      await qoper8.send(message);
      await qoper8.stop();
      qoper8.start();
      const told = (count) => [
        ['QBackupAdd', undefined],
        ['addedToQueue', message],
        ['sentToWorker', { message, workerId: 0 }],
        ['replyReceived', { reply: { id: 0, data: 5, count }, workerId: 0 }],
        ['QBackupDelete', undefined],
      ];
      assert.deepEqual(heard, [
        ['workerStarted', 0],
        ...told(1),
        ...told(2),
        ['workerStopped', 0],
        ['stop', undefined],
        ['start', undefined],
      ]);
    });

    it('starts again after it was stopped, with workers that have ids of their own', async (context) => {
      const qoper8 = start(context, { kind });
      assert.equal((await qoper8.send({ type: 'do', do: 'echo' })).id, 0);
      await Promise.all([qoper8.stop(), qoper8.stop()]);
      const message = { type: 'do', do: 'echo' };
      assert.deepEqual(await qoper8.send(message), { error: 'QOper8 has been stopped', originalRequest: message, code: 'closed' });
      qoper8.start();
      assert.equal((await qoper8.send(message)).id, 1);
      const stopping = qoper8.stop();
      qoper8.start();
      await stopping;
      assert.equal((await qoper8.send(message)).id, 2);
    });

    it('gives up on stop() what takes longer than it may', async (context) => {
      const qoper8 = start(context, { kind });
      const message = { type: 'do', do: 'block' };
      const sent = once(qoper8, 'sentToWorker');
      const blocked = qoper8.send(message);
      await sent;
      await qoper8.stop({ deadline: 50 });
      assert.deepEqual(await blocked, { error: 'QOper8 has been stopped', originalRequest: message, code: 'closed' });
    });

    it('has more workers or fewer while it runs, as far as maxPoolSize allows', async (context) => {
      const qoper8 = start(context, { kind, poolSize: 9, maxPoolSize: 2 });
      const workers = async () => new Set((await Promise.all([1, 2, 3, 4].map(() => qoper8.send({ type: 'do', do: 'wait', ms: 100 })))).map(({ id }) => id)).size;
      let most = 0;
      while (most < 2) most = Math.max(most, await workers());
      assert.equal(most, 2);
      for (const ignored of [3, 0, -1, 'x', undefined]) qoper8.setPoolSize(ignored);
      const stopped = once(qoper8, 'workerStopped');
      qoper8.setPoolSize('1');
      await stopped;
      assert.equal(await workers(), 1);
      qoper8.setPoolSize(2);
      while ((await workers()) < 2);
    });

    it('keeps a copy of the queue by QBackup, in which what was not handled stays', async (context) => {
      const queue = new Map();
      const told = [];
      const QBackup = { add: (id, message) => void queue.set(id, message), delete: async (id) => void queue.delete(id) };
      const qoper8 = start(context, { kind, QBackup });
      qoper8.on('QBackupAdd', ({ id, requestObject }) => told.push(['add', id, requestObject.do]));
      qoper8.on('QBackupDelete', (id) => told.push(['delete', id]));
      const before = Date.now() * 1_000;
      const both = Promise.all([qoper8.send({ type: 'do', do: 'echo' }), qoper8.send({ type: 'do', do: 'throw' })]);
      const [first, second] = queue.keys();
      assert.deepEqual([...queue.values()], [{ type: 'do', do: 'echo' }, { type: 'do', do: 'throw' }]);
      assert.ok(second === first + 1 && Math.abs(first - before) < 60e6);
      await both;
      assert.equal(queue.size, 0);
      assert.deepEqual(told, [['add', first, 'echo'], ['add', second, 'throw'], ['delete', first], ['delete', second]]);
      await qoper8.send({ type: 'do', do: 'exit' });
      assert.deepEqual([...queue], [[first + 2, { type: 'do', do: 'exit' }]]);
      await qoper8.send({ type: 'unknown' });
      assert.equal(queue.size, 1);
    });

    it('tells what a QBackup throws, and handles the message all the same', async (context) => {
      const errors = [];
      const QBackup = {
        add() {
          throw new Error('no add');
        },
        delete: () => Promise.reject(new Error('no delete')),
      };
      const qoper8 = start(context, { kind, QBackup });
      qoper8.on('QBackupError', (error) => errors.push(error.message));
      assert.equal((await qoper8.send({ type: 'do', do: 'echo', data: 1 })).data, 1);
      assert.deepEqual(errors, ['no add', 'no delete']);
    });

    it('takes a message back when its signal is aborted, and limits one by itself', async (context) => {
      const qoper8 = start(context, { kind });
      await qoper8.send({ type: 'do', do: 'echo' });
      const controller = new AbortController();
      const message = { type: 'do', do: 'wait', ms: 60_000 };
      const waiting = qoper8.send(message, { signal: controller.signal });
      controller.abort();
      assert.deepEqual(await waiting, { error: 'the message was aborted', originalRequest: message, code: 'aborted' });
      assert.equal((await qoper8.send(message, { signal: controller.signal })).code, 'aborted');
      assert.equal((await qoper8.send(message, { timeout: 20 })).code, 'deadline');
      assert.equal((await qoper8.send({ type: 'do', do: 'echo', data: 1 })).data, 1);
    });
  });
}

it('QOper8 says which option is wrong, and ignores those that mean nothing', () => {
  assert.equal(byDefault, QOper8);
  assert.throws(() => new QOper8({ poolSize: 'many' }), /poolSize is a whole number of at least 1, not NaN/);
  assert.throws(() => new QOper8({ maxQLength: -1 }), /maxQLength is a whole number of at least 0, not -1/);
  assert.throws(() => new QOper8({ maxQueueLength: 1.5 }), /maxQueueLength is a whole number of at least 0, not 1\.5/);
  assert.throws(() => new QOper8({ kind: 'webworker' }), /kind is 'process' or 'thread', not "webworker"/);
  assert.throws(() => new QOper8({ handlerTimeout: -5 }), /handlerTimeout is milliseconds from 0/);
  assert.throws(() => new QOper8({ handlersByMessageType: new Map([['a', { file: 'a.mjs' }]]) }), /the handler of "a" is \{ module, path \} or \{ text \}, not \{"file":"a\.mjs"\}/);
  assert.throws(() => new QOper8({ onStartup: { modul: 'x' } }), /a start-up module is \{ module, path, arguments \}/);
  const qoper8 = new QOper8({ poolSize: '3', workerModulePath: '/tmp', handlersByMessageType: { a: { module: 'a.mjs' } } });
  assert.equal(qoper8.handlersByMessageType.size, 1);
  assert.equal(qoper8.getQueueLength(), 0);
});

it('QOper8 refuses what is no message', async (context) => {
  const qoper8 = start(context, {});
  for (const message of [null, undefined, 7]) assert.match((await qoper8.send(message)).error, /a message is an object with a type, not (null|undefined|number)/);
  assert.match((await qoper8.send({ data: 1 })).error, /No type or handler specified in message/);
});

/** Makes a program written for QOper8, in a folder where Forebay is installed. */
async function program(context, files) {
  const folder = mkdtempSync(join(tmpdir(), 'forebay-qoper8-'));
  context.after(() => rmSync(folder, { recursive: true }));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules', 'forebay'));
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text);
  const child = spawn(process.execPath, ['app.mjs'], { cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] });
  context.after(() => child.kill('SIGKILL'));
  const said = { text: '' };
  child.stdout.setEncoding('utf8').on('data', (text) => (said.text += text));
  return { child, said };
}

const HANDLER = `
let handler = function(obj, finished) {
  finished({ processing: 'Message processing done!', data: obj.data, time: Date.now() });
};
export {handler};
`;

it('a program that was written for QOper8 runs with another import, and ends when it has nothing more to do', async (context) => {
  const app = `
    import {QOper8} from 'forebay/qoper8';
    let qoper8 = new QOper8({
      logging: true,
      handlersByMessageType: new Map([ ['myMessage', {module: 'myMessage.mjs'}] ]),
      workerInactivityLimit: 2
    });
    let res = await qoper8.send({ type: 'myMessage', data: { hello: 'world' } });
    console.log('result ' + JSON.stringify([res.processing, res.data, typeof res.time, res.qoper8]));
  `;
  const { child, said } = await program(context, { 'app.mjs': app, 'myMessage.mjs': HANDLER });
  assert.deepEqual(await onceOf(child, 'close'), [0, null]);
  assert.match(said.text, /^result \["Message processing done!",\{"hello":"world"\},"number",\{"finished":true\}\]$/m);
  assert.match(said.text, /^\d+: worker 0 is started$/m);
});

it('a callback or a listener that throws harms no other message', async (context) => {
  const app = `
    import { QOper8 } from 'forebay/qoper8';
    const caught = [];
    process.on('uncaughtException', (error) => caught.push(error.message));
    const qoper8 = new QOper8({ handlersByMessageType: new Map([['m', {module: 'm.mjs'}]]) });
    qoper8.on('replyReceived', () => { throw new Error('of a listener'); });
    qoper8.message({ type: 'm' }, () => { throw new Error('of a callback'); });
    console.log((await qoper8.send({ type: 'm', data: 1 })).data);
    await new Promise((resolve) => setImmediate(resolve));
    console.log(caught.sort().join());
  `;
  const { child, said } = await program(context, { 'app.mjs': app, 'm.mjs': HANDLER });
  assert.deepEqual(await onceOf(child, 'close'), [0, null]);
  assert.equal(said.text, '1\nof a callback,of a listener,of a listener\n');
});

it('stop() ends a program that says so by exitOnStop', async (context) => {
  const app = `
    import QOper8 from 'forebay/qoper8';
    const qoper8 = new QOper8({ exitOnStop: true, handlersByMessageType: new Map([['m', {module: 'm.mjs'}]]) });
    setInterval(() => {}, 1000);
    await qoper8.send({ type: 'm' });
    qoper8.on('stop', () => console.log('stopped'));
    qoper8.stop();
  `;
  const { child, said } = await program(context, { 'app.mjs': app, 'm.mjs': HANDLER });
  assert.deepEqual(await onceOf(child, 'close'), [0, null]);
  assert.equal(said.text, 'stopped\n');
});

for (const signal of ['SIGINT', 'SIGTERM']) {
  it(`${signal} has workers finish what they run, and then ends the program`, async (context) => {
    const app = `
      import { QOper8 } from 'forebay/qoper8';
      const qoper8 = new QOper8({ handlersByMessageType: new Map([['do', { module: 'qoper8.mjs', path: ${JSON.stringify(HANDLERS)} }]]) });
      const { pid } = await qoper8.send({ type: 'do', do: 'pid' });
      qoper8.on('sentToWorker', () => console.log(pid));
      const { waited } = await qoper8.send({ type: 'do', do: 'wait', ms: 300 });
      console.log('waited', waited);
      setInterval(() => {}, 1000);
    `;
    const { child, said } = await program(context, { 'app.mjs': app });
    await onceOf(child.stdout, 'data');
    const worker = Number(said.text);
    child.kill(signal);
    assert.deepEqual(await onceOf(child, 'close'), [null, signal]);
    assert.match(said.text, /\nwaited 300\n$/);
    assert.equal(isAlive(worker), false);
  });
}
