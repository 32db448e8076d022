// Pools whose handlers throw, hang or exit, and whose workers are killed.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { FILE, IS_BUN, KINDS, folder, isAlive, until, withPool } from './pools.mjs';

for (const kind of KINDS) {
  describe(`handlers that fail, in a pool of the kind ${kind}`, () => {
    it('have their error told, whatever it is', async () => {
      await withPool({ kind }, async (pool) => {
        const error = await pool.run({ message: 'too far', members: { code: 'EFAR', status: 418, list: [1] } }, { type: 'throwsError' }).catch((thrown) => thrown);
        assert.equal(error.code, 'handler_error');
        assert.equal(error.message, 'too far');
        assert.match(error.stack, /handlers\/pool\.mjs/);
        assert.deepEqual([error.thrown.name, error.thrown.members], ['RangeError', { code: 'EFAR', status: 418, list: [1] }]);
        for (const [what, message] of [['a string', 'a string'], [null, 'null'], [undefined, 'undefined'], [5, '5'], [{ a: 1 }, '[object Object]']]) {
          await assert.rejects(pool.run({ what }, { type: 'throws' }), { code: 'handler_error', message });
        }
        await assert.rejects(pool.run('later', { type: 'rejects' }), { code: 'handler_error', message: 'later' });
        const [{ messages, errors }] = pool.stats().workers;
        assert.deepEqual([messages, errors], [7, 7]);
      });
    });

    it('have errors told of which parts cannot be read', async () => {
      await withPool({ kind, deadlines: { run: 5_000 } }, async (pool) => {
        for (const type of ['throwsOdd', 'throwsOddLater']) {
          const told = async (what) => (await pool.run(what, { type }).catch((error) => error)).thrown;
          assert.equal((await told('getter')).message, 'has a getter');
          assert.equal((await told('message')).message, '');
          assert.deepEqual((({ name, message, members }) => ({ name, message, members }))((await told('cause')).members.cause), { name: 'TypeError', message: 'inner', members: { code: 'EINNER' } });
          assert.equal((await told('circle')).members.cause.message, 'circle');
          assert.deepEqual((await told('function')).members, { code: 'EFUN' });
          assert.deepEqual((await told('deep')).members, { code: 'EDEEP' });
          assert.equal((await told('text')).message, 'something was thrown that has no text');
          assert.equal(typeof (await told('proxy')).message, 'string');
        }
        assert.equal((await pool.run('cause', { type: 'throwsOdd' }).catch((error) => error)).cause.message, 'inner');
      });
    });

    it('are failures when their reply cannot be sent', async () => {
      await withPool({ kind }, async (pool) => {
        for (const type of ['uncloneable', 'oddThenable', 'oddReply']) await assert.rejects(pool.run(null, { type }), { code: 'handler_error' }, type);
        assert.equal(await pool.run(7n, { type: 'echo' }), 7n);
        assert.equal(pool.stats().workers[0].worker, 1);
      });
    });

    it('answer once, however often they try', async () => {
      await withPool({ kind }, async (pool) => {
        const replies = await Promise.all([pool.run(0, { type: 'answersTwice' }), pool.run(1, { type: 'echo' }), pool.run(0, { type: 'answersTwice' }), pool.run(2, { type: 'echo' })]);
        assert.deepEqual(replies, ['first', 1, 'first', 2]);
      });
    });

    it('fail by themselves when they exit: the next message has another worker', async () => {
      await withPool({ kind }, async (pool, { made }) => {
        const stops = [];
        pool.on('workerStop', ({ worker, exitCode, cause }) => stops.push({ worker, exitCode, cause }));
        const error = await pool.run({ code: 3, line: 'the last words' }, { type: 'exits' }).catch((thrown) => thrown);
        assert.equal(error.code, 'crashed');
        assert.equal(error.exitCode, 3);
        assert.deepEqual([error.stderr.at(-1), /exit code 3, the last words/.test(error.message)], ['the last words', true]);
        assert.equal(await pool.run(null, { type: 'who' }), 2);
        assert.deepEqual(stops, [{ worker: 1, exitCode: 3, cause: 'crashed' }]);
      });
    });

    it('fail alone when they exit with others behind them', async () => {
      await withPool({ kind, size: { min: 2, max: 2 } }, async (pool) => {
        await Promise.all(Array.from({ length: 200 }, (_, index) => pool.run(index, { type: 'echo' })));
        const all = Array.from({ length: 600 }, (_, index) => (index % 100 === 50 ? pool.run({}, { type: 'exits' }) : pool.run(index, { type: 'echo' })));
        const settled = await Promise.allSettled(all);
        for (const [index, { status, value, reason }] of settled.entries()) {
          if (index % 100 === 50) assert.equal(reason.code, 'crashed');
          else assert.deepEqual([status, value], ['fulfilled', index], String(reason));
        }
      });
    });

    it('bring the worker down with an error that nobody catches, and the cause is told', async () => {
      await withPool({ kind }, async (pool) => {
        const lines = [];
        pool.on('stderr', (_, line) => lines.push(line));
        assert.equal(await pool.run(null, { type: 'rejectsLater' }), 'answered');
        await until(() => pool.stats().workers.every(({ worker }) => worker > 1), 'another worker');
        assert.match(lines.join('\n'), /nobody waits for this/);
        assert.equal(await pool.run(1, { type: 'echo' }), 1);
      });
    });

    it('have their answer told that they gave before they exited', async () => {
      await withPool({ kind, size: { min: 1, max: 2 } }, async (pool) => {
        for (const bytes of [10, 40_000]) {
          for (let time = 0; time < 5; time++) assert.equal((await pool.run(bytes, { type: 'answersAndExits' })).length, bytes);
        }
      });
    });

    it('are stopped when they never finish, and when they block', async () => {
      await withPool({ kind }, async (pool) => {
        for (const type of ['never', 'blocks', 'heeds']) {
          const began = performance.now();
          await assert.rejects(pool.run({}, { type, deadline: { run: 100 } }), { code: 'deadline', phase: 'run', limitMs: 100 }, type);
          assert.equal(await pool.run(type, { type: 'echo' }), type);
          assert.ok(performance.now() - began < 5_000);
        }
        const causes = pool.stats().workers.map(({ worker }) => worker);
        // The handler that reacts to its signal costs no worker.
        assert.deepEqual(causes, [3]);
      });
    });

    it('are stopped when the message is aborted, and its place is free', async (test) => {
      const files = folder(test);
      await withPool({ kind }, async (pool) => {
        for (const [type, replaced] of [['heeds', false], ['never', true], ['blocks', true]]) {
          const before = await pool.run(null, { type: 'who' });
          const controller = new AbortController();
          const file = join(files, type);
          const running = pool.run({ file }, { type, signal: controller.signal });
          await until(() => existsSync(file));
          controller.abort(new Error('changed my mind'));
          await assert.rejects(running, (error) => error.code === 'aborted' && error.name === 'AbortError' && error.cause.message === 'changed my mind');
          assert.equal(await pool.run(null, { type: 'who' }) !== before, replaced, type);
        }
      });
    });

    it('are not run when the message is aborted before', async () => {
      await withPool({ kind }, async (pool) => {
        const controller = new AbortController();
        const first = pool.run(100, { type: 'busy' });
        const waiting = Array.from({ length: 20 }, () => pool.run(null, { type: 'exits', signal: controller.signal }));
        controller.abort();
        for (const promise of waiting) await assert.rejects(promise, { code: 'aborted' });
        await assert.rejects(pool.run(1, { type: 'echo', signal: controller.signal }), { code: 'aborted' });
        assert.equal(await first, 100);
        assert.equal(await pool.run(null, { type: 'who' }), 1);
      });
    });

    it('are not troubled by an abort after the reply', async () => {
      await withPool({ kind }, async (pool) => {
        const controller = new AbortController();
        assert.equal(await pool.run(1, { type: 'echo', signal: controller.signal }), 1);
        controller.abort();
        assert.equal(await pool.run(2, { type: 'echo' }), 2);
        assert.equal(pool.stats().counts.aborted, 0);
      });
    });

    it('may have one signal for very many messages', async () => {
      const warnings = [];
      const onWarning = (warning) => warnings.push(warning.message);
      process.on('warning', onWarning);
      await withPool({ kind }, async (pool) => {
        const { signal } = new AbortController();
        await Promise.all(Array.from({ length: 500 }, (_, index) => pool.run(index, { type: 'echo', signal })));
        await new Promise((resolve) => setImmediate(resolve));
      });
      process.off('warning', onWarning);
      assert.deepEqual(warnings, []);
    });

    it('go to another worker when one is killed, where they may be run again', async () => {
      await withPool({ kind, retry: { attempts: 3 } }, async (pool, promises) => {
        const letters = [];
        pool.on('deadLetter', ({ type, message, attempts, error }) => letters.push({ type, message, attempts, code: error.code }));
        await assert.rejects(pool.run({ code: 4 }, { type: 'exits' }), { code: 'crashed', exitCode: 4 });
        assert.deepEqual(letters, [{ type: 'exits', message: { code: 4 }, attempts: 3, code: 'crashed' }]);
        assert.equal(pool.stats().counts.retried, 2);
        assert.equal(await pool.run(null, { type: 'who' }), 4);
      });
    });

    it('are run again after an error or a deadline only where the pool says so', async () => {
      await withPool({ kind, retry: { attempts: 2, after: ['error', 'deadline'], backoff: 20 } }, async (pool) => {
        await assert.rejects(pool.run('no', { type: 'rejects' }), { code: 'handler_error' });
        await assert.rejects(pool.run({}, { type: 'heeds', deadline: { run: 60 } }), { code: 'deadline' });
        await assert.rejects(pool.run({}, { type: 'exits' }), { code: 'crashed' });
        await assert.rejects(pool.run('no', { type: 'rejects', attempts: 1 }), { code: 'handler_error' });
        const { retried, failed, overdue, crashed } = pool.stats().counts;
        assert.deepEqual({ retried, failed, overdue, crashed }, { retried: 2, failed: 2, overdue: 1, crashed: 1 });
      });
    });

    it('may run out of memory by themselves', { skip: IS_BUN && 'its heap has no limit' }, async () => {
      await withPool({ kind, resourceLimits: { maxOldGenerationSizeMb: 32 } }, async (pool) => {
        const other = pool.run(1, { type: 'echo' });
        await assert.rejects(pool.run(null, { type: 'allocates' }), { code: 'crashed' });
        assert.equal(await other, 1);
        assert.equal(await pool.run(2, { type: 'echo' }), 2);
      });
    });
  });
}

describe('processes', () => {
  it('take their folder, their arguments and their environment from the pool', async (test) => {
    const cwd = folder(test);
    await withPool({ cwd, env: { PATH: process.env.PATH, POOL_TEST: 'only this', NOT: undefined } }, async (pool) => {
      const told = await pool.run(null, { type: 'worker' });
      assert.deepEqual([told.cwd, told.env], [cwd, 'only this']);
    });
  });

  it('are killed when they close their link', async () => {
    await withPool({}, async (pool) => {
      await assert.rejects(pool.run(null, { type: 'closesItsLink' }), { code: 'crashed' });
      assert.equal(await pool.run(1, { type: 'echo' }), 1);
    });
  });

  it('are gone with all that they have started when one is killed', async () => {
    await withPool({}, async (pool) => {
      const { worker, child } = await pool.run(null, { type: 'spawns' });
      process.kill(worker, 'SIGKILL');
      await until(() => !isAlive(child), 'the child of the killed worker ends');
      assert.equal(await pool.run(1, { type: 'echo' }), 1);
    });
  });

  it('are killed while they run and while they are idle, and no message is lost that has not begun', async () => {
    await withPool({ size: { min: 2, max: 2 }, retry: { attempts: 50 } }, async (pool) => {
      await pool.ready;
      const all = [];
      for (let round = 0; round < 10; round++) {
        for (let index = 0; index < 200; index++) all.push(pool.run(index % 7, { type: index % 10 === 0 ? 'waits' : 'echo' }).then((reply) => assert.equal(reply, index % 7)));
        const { pid } = pool.stats().workers[round % pool.stats().workers.length] ?? {};
        if (pid !== undefined && isAlive(pid)) process.kill(pid, 'SIGKILL');
        await all[round * 100];
      }
      await Promise.all(all);
    });
  });

  it('end within a second after their pool was killed, also when they block', async (test) => {
    const file = join(folder(test), 'pid');
    const source = `
      import { Pool } from ${JSON.stringify(new URL('../dist/pool/index.js', import.meta.url).href)};
      const pool = new Pool({ handlers: { blocks: { file: ${JSON.stringify(FILE)}, export: 'blocks' }, echo: { file: ${JSON.stringify(FILE)}, export: 'echo' } }, size: { min: 2, max: 2 } });
      await pool.ready;
      void pool.run({ file: ${JSON.stringify(file)} }, { type: 'blocks' });
      await pool.run(1, { type: 'echo' });
      console.log(JSON.stringify(pool.stats().workers.map(({ pid }) => pid)));
    `;
    const program = join(folder(test), 'program.mjs');
    writeFileSync(program, source);
    const parent = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
    let printed = '';
    parent.stdout.on('data', (text) => (printed += text));
    await until(() => printed.endsWith('\n'));
    const pids = JSON.parse(printed);
    await until(() => existsSync(file) && pids.includes(Number(readFileSync(file, 'utf8'))), 'the handler blocks');
    parent.kill('SIGKILL');
    const killed = performance.now();
    await until(() => pids.every((pid) => !isAlive(pid)), 'the workers end');
    assert.ok(performance.now() - killed < 1_000);
  });
});
