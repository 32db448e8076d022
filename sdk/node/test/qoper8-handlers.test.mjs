// Handlers and startup modules written for QOper8.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { Pool } from '../dist/pool/index.js';
import { qoper8Handlers } from '../dist/qoper8/handlers.js';
import { HANDLERS, KINDS, once, start } from './qoper8s.mjs';

const run = promisify(execFile);
const contract = { module: 'qoper8-contract.mjs', path: HANDLERS };

/** A pool whose `contract` messages run a step of handlers/qoper8-contract.mjs. */
function take(context, options) {
  const qoper8 = start(context, { handlersByMessageType: new Map([['contract', contract]]), ...options });
  const step = async (name, value) => {
    const { qoper8: mark, ...reply } = await qoper8.send({ type: 'contract', step: name, value });
    return reply;
  };
  return { qoper8, step };
}

function folder(context) {
  const path = mkdtempSync(join(tmpdir(), 'forebay-qoper8-'));
  context.after(() => rmSync(path, { recursive: true }));
  return path;
}

for (const kind of KINDS) {
  describe(`a QOper8 handler in a worker of kind ${kind}`, () => {
    it('is the text of a function, or an export of a file that is loaded when its first message comes', async (context) => {
      const path = folder(context);
      const text = 'finished({ time: 1, received: message, id: this.id });';
      const handlersByMessageType = new Map([['text', { text }], ['file', { module: 'late.mjs', path }]]);
      const { qoper8 } = take(context, { kind, handlersByMessageType });
      assert.deepEqual(await qoper8.send({ type: 'text', hello: 'world' }), { time: 1, received: { type: 'text', hello: 'world' }, id: 0, qoper8: { finished: true } });
      const message = { type: 'file' };
      const { caughtError, ...failure } = await qoper8.send(message);
      assert.deepEqual(failure, { error: 'Unable to load Handler module late.mjs', originalMessage: message, workerId: 0, qoper8: { finished: true }, code: 'handler_error' });
      assert.match(JSON.parse(caughtError).message, /late\.mjs/);
      // The worker stays, and accepts the type once it learns of a file that can be loaded.
      writeFileSync(join(path, 'later.cjs'), 'exports.handler = (message, finished) => finished({ is: "there" });');
      qoper8.handlersByMessageType.set('later', { module: 'later.cjs', path });
      assert.deepEqual(await qoper8.send({ type: 'later' }), { is: 'there', qoper8: { finished: true } });
      assert.equal((await qoper8.send({ type: 'text' })).id, 0);
    });

    it('has the members that QOper8 gives it, and those of the start-up module', async (context) => {
      const onStartup = { module: 'qoper8-startup.mjs', path: HANDLERS, arguments: { greeting: 'hi', bar: function (value) { return `bar ${value}`; } } };
      const { step } = take(context, { kind, onStartup });
      const found = await step('members');
      const names = ['bar', 'cache', 'cwd', 'emit', 'getMessageCount', 'greeting', 'id', 'log', 'off', 'on', 'onMessage', 'postMessage', 'send', 'starts', 'upTime'];
      assert.deepEqual(found, { members: names, cwd: process.cwd(), upTime: '0 days 0:00:00', count: 1, id: 0, starts: 1, bar: 'bar arg' });
    });

    it('changes nothing that the next message sees but the cache', async (context) => {
      const { step } = take(context, { kind });
      assert.deepEqual(await step('write', 'a'), { extra: null, cached: null });
      assert.deepEqual(await step('write', 'b'), { extra: null, cached: 'a' });
    });

    it('finds what is in the cache for cacheExpiryTime', async (context) => {
      const { step } = take(context, { kind, cacheExpiryTime: 1, workerInactivityCheckInterval: 0.005 });
      assert.equal((await step('write', 'a')).cached, null);
      while ((await step('write', 'b')).cached !== null);
    });

    it('answers by finished(), or by what its promise is resolved with', async (context) => {
      const { qoper8, step } = take(context, { kind });
      for (const name of ['awaited', 'returned', 'later', 'timer']) assert.deepEqual(await step(name, 7), { [name]: 7 });
      assert.deepEqual(await qoper8.send({ type: 'contract', step: 'nothing' }), { qoper8: { finished: true } });
      assert.deepEqual(await step('nested', 8), { nested: { returned: 8 } });
    });

    it('fails alike whether it throws, rejects or returns a promise that is rejected', async (context) => {
      const { step } = take(context, { kind });
      for (const [workerId, name] of [[0, 'rejects'], [1, 'throws']]) {
        const { caughtError, ...failure } = await step(name);
        assert.equal(JSON.parse(caughtError).message, 'not in range');
        assert.deepEqual([failure.error, failure.shutdown, failure.workerId], ['Error running Handler Method for type contract', true, workerId]);
      }
      assert.deepEqual(await step('answers-then-throws', 1), { answered: 1 });
    });

    it('listens to events as long as it has the message', async (context) => {
      const { step } = take(context, { kind });
      for (let again = 0; again < 3; again++) {
        assert.deepEqual(await step('events', 5), { heard: [['first', 5], ['second', 5], ['finished', true]] });
      }
    });

    it('runs after a start-up module that was set later, and before the stop that it listens to', async (context) => {
      const file = join(folder(context), 'said');
      const { qoper8, step } = take(context, { kind });
      assert.equal((await step('members')).starts, undefined);
      qoper8.setOnStartupModule({ module: 'qoper8-startup.mjs', path: HANDLERS, arguments: { file } });
      await once(qoper8, 'workerStopped');
      const { id, starts } = await step('members');
      assert.deepEqual([id, starts], [1, 1]);
      qoper8.setOnStartupModule({ module: 'nowhere.mjs' });
      await qoper8.stop();
      assert.equal(readFileSync(file, 'utf8'), 'worker 1 stops\nworker 1 says so\n');
    });
  });
}

it('a QOper8 program logs from handlers as long as logging is on', async (context) => {
  const path = folder(context);
  const program = `
    import { QOper8 } from ${JSON.stringify(new URL('../dist/qoper8/index.js', import.meta.url).href)};
    const qoper8 = new QOper8({ handlersByMessageType: new Map([['contract', ${JSON.stringify(contract)}]]) });
    const say = (value) => qoper8.send({ type: 'contract', step: 'log', value });
    await say('not heard');
    qoper8.logging = true;
    await say('heard');
    qoper8.logging = false;
    await say('not heard either');
    const locked = new QOper8({ disableLogging: true, logging: true });
    locked.logging = true;
    locked.log('never heard');
    await qoper8.stop();
  `;
  writeFileSync(join(path, 'program.mjs'), program);
  const { stdout } = await run(process.execPath, [join(path, 'program.mjs')]);
  const said = stdout.split('\n').filter((line) => /heard/.test(line) && !line.includes('{'));
  assert.equal(said.length, 1);
  assert.match(said[0], /^\d+: heard$/);
});

it('QOper8 handlers use a store as mgdbx, use and glsdb', async (context) => {
  const path = folder(context);
  const text = `
    const person = this.use('Person');
    const before = person.get(1, 'name');
    person.set(1, 'name', message.name);
    new this.mgdbx.mglobal(this.mgdbx.db, 'Seen').increment(1);
    finished({ before, document: new this.glsdb.node('Person.1').document, same: this.use('Person') === person, cached: this.cache.size });
  `;
  const { qoper8 } = take(context, { mgdbx: { type: 'YottaDB', open: { type: 'Forebay', path: join(path, 'data') } }, handlersByMessageType: new Map([['person', { text }]]) });
  assert.deepEqual(await qoper8.send({ type: 'person', name: 'Ada' }), { before: '', document: { name: 'Ada' }, same: true, cached: 1, qoper8: { finished: true } });
  assert.equal((await qoper8.send({ type: 'person', name: 'Bo' })).before, 'Ada');
});

it('QOper8 handlers run in a Pool by the name of their type, after their start-up module', async (context) => {
  const path = folder(context);
  const text = `
    import { qoper8Handlers } from 'forebay/qoper8/handlers';
    import { handler as contract } from ${JSON.stringify(`${HANDLERS}/qoper8-contract.mjs`)};
    import { handler as other } from ${JSON.stringify(`${HANDLERS}/qoper8.mjs`)};
    import { onStartupModule } from ${JSON.stringify(`${HANDLERS}/qoper8-startup.mjs`)};
    export default qoper8Handlers({ contract, do: other }, { onStartupModule, arguments: { file: ${JSON.stringify(join(path, 'said'))} } });
  `;
  writeFileSync(join(path, 'handlers.mjs'), text);
  mkdirSync(join(path, 'node_modules'));
  symlinkSync(fileURLToPath(new URL('..', import.meta.url)), join(path, 'node_modules', 'forebay'));
  for (const kind of KINDS) {
    const pool = new Pool({ kind, handler: join(path, 'handlers.mjs'), size: { min: 1, max: 1 } });
    assert.equal((await pool.run({ step: 'members' }, { type: 'contract' })).starts, 1);
    assert.deepEqual(await pool.run({ do: 'echo', data: 2 }, { type: 'do' }), { id: 0, data: 2, count: 2 });
    assert.equal((await pool.run({ step: 'members' }, { type: 'contract' })).starts, 1);
    await assert.rejects(pool.run({ step: 'throws' }, { type: 'contract' }), { code: 'handler_error', message: 'not in range' });
    await pool.close();
  }
  assert.equal(readFileSync(join(path, 'said'), 'utf8'), 'worker 0 stops\nworker 0 says so\n'.repeat(2));
  assert.throws(() => qoper8Handlers({ a: 'a.mjs' }), /the handler of "a" is a function, not string/);
});
