// Sixteen failure scenarios that QOper8 got wrong, for worker processes and threads.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once as onceOf } from 'node:events';
import { describe, it } from 'node:test';
import { HANDLERS, KINDS, isAlive, once, start } from './qoper8s.mjs';

const NAMES = { process: 'Child Process', thread: 'Worker Thread' };

for (const kind of KINDS) {
  describe(`QOper8 with workers of kind ${kind}`, () => {
    it('replaces a worker whose handler throws, and ends it', async (context) => {
      const qoper8 = start(context, { kind });
      const before = await qoper8.send({ type: 'do', do: 'pid' });
      const stopped = once(qoper8, 'workerStopped');
      const message = { type: 'do', do: 'throw' };
      const { caughtError, ...failure } = await qoper8.send(message);
      assert.deepEqual(failure, {
        error: 'Error running Handler Method for type do',
        shutdown: true,
        originalMessage: message,
        workerId: 0,
        qoper8: { finished: true },
        code: 'handler_error',
      });
      const { stack, ...caught } = JSON.parse(caughtError);
      assert.deepEqual(caught, { message: 'y is not there', hint: 7 });
      assert.match(stack, /^TypeError: y is not there\n.*qoper8\.mjs/);
      const after = await qoper8.send({ type: 'do', do: 'pid' });
      assert.deepEqual([before.id, after.id], [0, 1]);
      assert.equal(await stopped, 0);
      if (kind === 'process') assert.equal(isAlive(before.pid), false);
    });

    it('ends a handler that blocks its worker, answers the next message, and stops', async (context) => {
      const qoper8 = start(context, { kind, handlerTimeout: 200 });
      const message = { type: 'do', do: 'block' };
      const blocked = qoper8.send(message);
      const next = qoper8.send({ type: 'do', do: 'pid' });
      assert.deepEqual(await blocked, { error: `${NAMES[kind]} handler timeout exceeded`, originalRequest: message, code: 'deadline' });
      assert.equal((await next).id, 1);
      await qoper8.stop();
    });

    it('survives that the worker of a message ends for which nobody waits', async (context) => {
      const qoper8 = start(context, { kind });
      const ended = once(qoper8, kind === 'thread' ? 'threadExit' : 'childProcessExit');
      const message = { type: 'do', do: 'exit' };
      qoper8.message(message);
      assert.deepEqual(await ended, message);
      assert.equal((await qoper8.send({ type: 'do', do: 'echo', data: 1 })).data, 1);
      assert.deepEqual(await qoper8.send(message), {
        error: `${NAMES[kind]} has shut down unexpectedly`,
        exitCode: 3,
        signal: null,
        originalRequest: message,
        code: 'crashed',
      });
    });

    it('gives what a handler sends ahead to callbacks and listeners, and the reply to promises', async (context) => {
      const qoper8 = start(context, { kind });
      const heard = [];
      qoper8.on('replyReceived', ({ reply, workerId }) => heard.push([reply, workerId]));
      assert.deepEqual(await qoper8.send({ type: 'do', do: 'parts', n: 1 }), { final: true, of: 1, qoper8: { finished: true } });
      assert.deepEqual(heard, [[{ part: 1, of: 1 }, 0], [{ part: 2, of: 1 }, 0], [{ final: true, of: 1 }, 0]]);
      const called = [];
      await new Promise((resolve) => {
        qoper8.message({ type: 'do', do: 'parts', n: 2 }, (reply, workerId) => {
          called.push([reply, workerId]);
          if (reply.final) resolve();
        });
      });
      assert.deepEqual(called, [[{ part: 1, of: 2 }, 0], [{ part: 2, of: 2 }, 0], [{ final: true, of: 2, qoper8: { finished: true } }, 0]]);
    });

    it('gives each caller its own reply while statistics are asked for', async (context) => {
      const qoper8 = start(context, { kind });
      await qoper8.send({ type: 'do', do: 'echo' });
      const replies = Array.from({ length: 8 }, (_, n) => qoper8.send({ type: 'do', do: n === 0 ? 'wait' : 'echo', ms: 50, data: n }));
      const stats = await qoper8.getStats();
      const worker = stats[kind === 'thread' ? 'worker_threads' : 'child_processes'][0];
      assert.match(worker.uptime, /^0 days 0:00:0\d$/);
      assert.match(worker.memory.heapUsed, /^\d+\.\d\d$/);
      assert.ok(worker.noOfMessages >= 2);
      assert.deepEqual((await Promise.all(replies)).map(({ data }) => data), [undefined, 1, 2, 3, 4, 5, 6, 7]);
    });

    it('ignores and counts a second finished(), and parts that come after it', async (context) => {
      const qoper8 = start(context, { kind });
      const replies = Array.from({ length: 4 }, (_, n) => qoper8.send({ type: 'do', do: 'twice', n: n + 1 }));
      assert.deepEqual((await Promise.all(replies)).map(({ reply }) => reply), [1, 2, 3, 4]);
      assert.equal((await qoper8.send({ type: 'do', do: 'sleep-then-late-part', n: 5 })).n, 5);
      assert.deepEqual(await qoper8.send({ type: 'do', do: 'wait', ms: 30 }), { waited: 30, id: 0, qoper8: { finished: true } });
      const { child_processes, worker_threads = child_processes } = await qoper8.getStats();
      assert.equal(worker_threads[0].ignoredReplies, 4 * 2 + 1);
    });

    it('answers an object that is sent twice twice, and leaves it as it is', async (context) => {
      const qoper8 = start(context, { kind });
      const message = { type: 'do', do: 'echo', data: 'same' };
      const replies = await Promise.all([qoper8.send(message), qoper8.send(message)]);
      assert.deepEqual(replies.map(({ data }) => data), ['same', 'same']);
      assert.deepEqual(message, { type: 'do', do: 'echo', data: 'same' });
    });

    it('takes replies with a BigInt and with a cycle, and tells only its caller of one that cannot be sent', async (context) => {
      const qoper8 = start(context, { kind });
      assert.equal((await qoper8.send({ type: 'do', do: 'big' })).big, 10n);
      const circle = await qoper8.send({ type: 'do', do: 'circle' });
      assert.equal(circle.self, circle);
      const replies = await Promise.all([qoper8.send({ type: 'do', do: 'function' }), qoper8.send({ type: 'do', do: 'echo', data: 1 })]);
      assert.equal(replies[0].error, 'Error running Handler Method for type do');
      assert.match(replies[0].caughtError, /clone/);
      assert.equal(replies[1].data, 1);
    });

    it('refuses a message that cannot be sent, and no other', async (context) => {
      const qoper8 = start(context, { kind });
      const message = { type: 'do', do: 'echo', data: { f() {} } };
      const { error, ...rest } = await qoper8.send(message);
      assert.match(error, /^the message cannot be sent: .*clone/);
      assert.deepEqual(rest, { originalRequest: message, code: 'not_sendable' });
      assert.equal((await qoper8.send({ type: 'do', do: 'echo', data: 2 })).data, 2);
    });

    it('says why its workers do not start, gives them no message, and does not start them without end', async (context) => {
      const qoper8 = start(context, { kind, onStartup: { module: 'qoper8-startup.mjs', path: HANDLERS, arguments: { fail: 'no database' } } });
      let starts = 0;
      qoper8.on('workerStarted', () => starts++);
      const failed = once(qoper8, 'workerFailed');
      const replies = await Promise.all(Array.from({ length: 20 }, () => qoper8.send({ type: 'do', do: 'echo' })));
      for (const { error, caughtError, originalMessage } of replies) {
        assert.match(error, /^QOper8 Worker has not been initialised: .*Error running onStartup customisation module qoper8-startup\.mjs: no database/);
        assert.match(JSON.parse(caughtError).stack, /qoper8-startup\.mjs/);
        assert.deepEqual(originalMessage, { type: 'do', do: 'echo' });
      }
      assert.match((await failed).message, /no database/);
      assert.ok(starts <= 2, `${starts} starts`);
    });

    it('has the next worker handle what waits while one retires', async (context) => {
      const qoper8 = start(context, { kind, workerInactivityLimit: 0.001, workerInactivityCheckInterval: 0.02 });
      const stopped = once(qoper8, 'workerStopped');
      const [slow, next] = await Promise.all([qoper8.send({ type: 'do', do: 'wait', ms: 800 }), qoper8.send({ type: 'do', do: 'echo', data: 'next' })]);
      assert.deepEqual([slow.waited, next.data], [800, 'next']);
      assert.equal(await stopped, 0);
      assert.deepEqual(await qoper8.send({ type: 'do', do: 'echo', data: 'last' }), { id: 1, data: 'last', count: 1, qoper8: { finished: true } });
    });

    it('answers on stop() what runs, and with an error what waits', async (context) => {
      const qoper8 = start(context, { kind });
      await qoper8.send({ type: 'do', do: 'echo' });
      const running = qoper8.send({ type: 'do', do: 'wait', ms: 100 });
      const message = { type: 'do', do: 'echo' };
      const waiting = qoper8.send(message);
      // Messages in a worker's inbox may be started before they are taken back; the first one must be.
      const part = once(qoper8, 'replyReceived');
      await Promise.all([qoper8.stop(), waiting, running]);
      assert.deepEqual(await waiting, { error: 'QOper8 has been stopped', originalRequest: message, code: 'closed' });
      assert.equal((await running).waited, 100);
      assert.equal((await part).reply.waited, 100);
      assert.equal(qoper8.getQueueLength(), 0);
    });

    it('accepts no more messages than maxQLength says', async (context) => {
      const qoper8 = start(context, { kind, maxQLength: 4 });
      await qoper8.send({ type: 'do', do: 'echo' });
      const replies = await Promise.all(Array.from({ length: 500 }, (_, n) => qoper8.send({ type: 'do', do: 'wait', ms: 5, n })));
      const refused = replies.filter(({ code }) => code === 'queue_full');
      assert.equal(replies.filter(({ waited }) => waited === 5).length, 5);
      assert.equal(refused.length, 495);
      assert.equal(refused[0].error, 'QOper8 queue is full (maxQueueLength 4)');
      assert.equal(refused[0].originalRequest.n, 5);
    });

    it('has one worker take what one can do, and all of them what takes long', async (context) => {
      const qoper8 = start(context, { kind, poolSize: 3 });
      const ids = new Set();
      for (let n = 0; n < 60; n++) ids.add((await qoper8.send({ type: 'do', do: 'echo' })).id);
      assert.equal(ids.size, 1);
      const busy = await Promise.all([1, 2, 3].map(() => qoper8.send({ type: 'do', do: 'wait', ms: 1_500 })));
      assert.equal(new Set(busy.map(({ id }) => id)).size, 3);
    });

    it('knows no types but those that it was told', async (context) => {
      const qoper8 = start(context, { kind });
      const { id } = await qoper8.send({ type: 'do', do: 'echo' });
      for (const type of ['qoper8_terminate', 'qoper8_getStats', '', '__proto__', 'constructor', '/do', 'do/../do']) {
        const message = { type };
        assert.deepEqual(await qoper8.send(message), {
          error: `No handler defined for messages of type ${type}`,
          originalMessage: message,
          qoper8: { finished: true },
          code: 'unknown_type',
        });
      }
      assert.equal((await qoper8.send({ type: 'do', do: 'echo' })).id, id);
    });

    it('leaves no worker behind when the program is killed', async (context) => {
      const program = `
        import { start } from ${JSON.stringify(new URL('./qoper8s.mjs', import.meta.url).href)};
        const qoper8 = start({ after() {} }, { kind: ${JSON.stringify(kind)} });
        console.log(JSON.stringify(await qoper8.send({ type: 'do', do: 'pid' })));
        qoper8.message({ type: 'do', do: 'block' });
      `;
      const child = spawn(process.execPath, ['--input-type=module', '--eval', program], { stdio: ['ignore', 'pipe', 'inherit'] });
      context.after(() => child.kill('SIGKILL'));
      const [line] = await onceOf(child.stdout.setEncoding('utf8'), 'data');
      const { pid } = JSON.parse(line);
      assert.equal(isAlive(pid), true);
      child.kill('SIGKILL');
      await onceOf(child, 'exit');
      const until = performance.now() + 5_000;
      while (isAlive(pid) && performance.now() < until) await new Promise((resolve) => setTimeout(resolve, 5));
      assert.equal(isAlive(pid), false);
    });
  });
}
