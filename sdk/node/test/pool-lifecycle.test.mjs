// How pools grow, shrink and replace their workers.
import assert from 'node:assert/strict';
import { renameSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { KINDS, folder, until, withPool } from './pools.mjs';

for (const kind of KINDS) {
  describe(`the life of a pool of the kind ${kind}`, () => {
    /** Sends messages, a few at a time, until told to stop; each must be answered. */
    function load(pool, type = 'echo') {
      let isOver = false;
      let sent = 0;
      const senders = Array.from({ length: 8 }, async () => {
        while (!isOver) {
          const message = type === 'echo' ? { at: ++sent } : sent++ % 5;
          assert.deepEqual(await pool.run(message, { type }), message);
        }
      });
      return {
        sent: () => sent,
        async stop() {
          isOver = true;
          await Promise.all(senders);
        },
      };
    }

    it('starts none before the first message when it needs none', async () => {
      await withPool({ kind, size: { min: 0, max: 2 } }, async (pool) => {
        assert.equal(pool.stats().workers.length, 0);
        assert.equal(await pool.run(1, { type: 'echo' }), 1);
      });
    });

    it('retires idle workers down to its least number, and starts them again', async () => {
      for (const min of [0, 1]) {
        await withPool({ kind, size: { min, max: 3 }, idleMax: 50 }, async (pool) => {
          const causes = [];
          pool.on('workerStop', ({ cause }) => causes.push(cause));
          let started = pool.stats().workers.length;
          pool.on('workerStart', () => started++);
          for (let round = 0; round < 2; round++) {
            await Promise.all(Array.from({ length: 12 }, () => pool.run(30, { type: 'busy' })));
            assert.ok(started > 1);
            started = min;
            await until(() => pool.stats().workers.length === min, 'idle workers end');
          }
          assert.ok(causes.every((cause) => cause === 'idle'), causes.join());
        });
      }
    });

    it('has a message that comes as a worker retires run by another', async () => {
      await withPool({ kind, size: { min: 0, max: 1 }, idleMax: 1 }, async (pool) => {
        const causes = [];
        pool.on('workerStop', ({ cause }) => causes.push(cause));
        for (let round = 1; round <= 3; round++) {
          assert.equal(await pool.run(round, { type: 'echo' }), round);
          await until(() => causes.length === round);
        }
        assert.deepEqual(causes, ['idle', 'idle', 'idle']);
        // A busy worker beyond its limit, with a message waiting behind.
        assert.deepEqual(await Promise.all([pool.run(700, { type: 'busy' }), pool.run(2, { type: 'echo' })]), [700, 2]);
      });
    });

    it('loses nothing when it grows and shrinks under load', async () => {
      await withPool({ kind, size: { min: 2, max: 2 } }, async (pool) => {
        const running = [load(pool), load(pool, 'waits')];
        for (const max of [4, 1, 3, 1, 2]) {
          pool.resize({ min: max, max });
          await until(() => pool.stats().workers.filter(({ phase }) => phase === 'ready').length === max && pool.stats().workers.length === max, `${max} workers`);
          const before = running[0].sent();
          await until(() => running[0].sent() > before + 20);
        }
        for (const each of running) await each.stop();
        assert.deepEqual([pool.stats().counts.crashed, pool.stats().counts.failed], [0, 0]);
        assert.throws(() => pool.resize({ max: 0 }), RangeError);
        assert.throws(() => pool.resize({ maximum: 2 }), /size has no "maximum"/);
      });
    });

    it('finishes what a worker runs that is too many', async () => {
      await withPool({ kind, size: { min: 2, max: 2 } }, async (pool) => {
        await pool.ready;
        await until(() => pool.stats().workers.every(({ phase }) => phase === 'ready'));
        const running = [pool.run(150, { type: 'waits' }), pool.run(150, { type: 'waits' })];
        await until(() => pool.stats().workers.every(({ inFlight }) => inFlight === 1));
        pool.resize({ min: 1, max: 1 });
        assert.deepEqual(await Promise.all(running), [150, 150]);
        await until(() => pool.stats().workers.length === 1);
      });
    });

    it('renews workers by messages and by errors without a loss', async () => {
      await withPool({ kind, size: { min: 2, max: 2 }, recycle: { messages: 40, errors: 3 } }, async (pool) => {
        const causes = [];
        pool.on('workerStop', ({ cause }) => causes.push(cause));
        const running = load(pool);
        await until(() => causes.length >= 3);
        await running.stop();
        const many = causes.length;
        for (let index = 0; index < 12; index++) await assert.rejects(pool.run('no', { type: 'rejects' }), { code: 'handler_error' });
        await until(() => causes.length > many);
        assert.ok(causes.every((cause) => cause === 'recycled'), causes.join());
        assert.equal(pool.stats().counts.crashed, 0);
      });
    });

    it('renews workers by age without a loss', async () => {
      await withPool({ kind, recycle: { age: 300 } }, async (pool) => {
        const running = load(pool);
        await until(() => pool.stats().workers.some(({ worker }) => worker >= 3), 'the third worker');
        await running.stop();
        assert.equal(pool.stats().counts.crashed, 0);
      });
    });

    it('has handlers as they are now after reload(), and loses nothing', async (test) => {
      const file = join(folder(test), 'handler.mjs');
      const edition = (number) => {
        // Replaced by a rename, because a worker may be reading the file.
        writeFileSync(`${file}.new`, `export default (message) => ({ message, edition: ${number} });`);
        renameSync(`${file}.new`, file);
      };
      edition(1);
      await withPool({ kind, size: { min: 2, max: 2 }, handlers: { it: file } }, async (pool) => {
        assert.deepEqual(await pool.run(1), { message: 1, edition: 1 });
        let isOver = false;
        const seen = new Set();
        const senders = Array.from({ length: 4 }, async (_, sender) => {
          for (let at = 0; !isOver; at++) {
            const reply = await pool.run(`${sender}.${at}`);
            assert.equal(reply.message, `${sender}.${at}`);
            seen.add(reply.edition);
          }
        });
        for (const number of [2, 3]) {
          edition(number);
          await pool.reload();
          assert.equal((await pool.run(1)).edition, number);
        }
        edition(4);
        await Promise.all([pool.reload(), pool.reload()]);
        assert.equal((await pool.run(1)).edition, 4);
        isOver = true;
        await Promise.all(senders);
        assert.deepEqual([...seen].sort(), [1, 2, 3, 4].slice(0, seen.size));
        await until(() => pool.stats().workers.length === 2);
        assert.equal(pool.stats().counts.crashed, 0);
      });
    });

    it('runs messages with the workers it has while new ones start', async (test) => {
      const file = join(folder(test), 'start.mjs');
      writeFileSync(file, '');
      await withPool({ kind, start: file }, async (pool) => {
        await pool.ready;
        writeFileSync(file, 'export const onStart = () => new Promise((resolve) => setTimeout(resolve, 800));');
        let isReloaded = false;
        const reloaded = pool.reload().then(() => (isReloaded = true));
        for (let index = 0; index < 20; index++) assert.equal(await pool.run(index, { type: 'echo' }), index);
        assert.equal(isReloaded, false);
        await reloaded;
        assert.equal(await pool.run(null, { type: 'who' }), 2);
      });
    });

    it('keeps its workers when those after a reload() do not start', async (test) => {
      const file = join(folder(test), 'start.mjs');
      writeFileSync(file, '');
      await withPool({ kind, start: file, size: { min: 2, max: 2 } }, async (pool) => {
        await pool.ready;
        const running = load(pool);
        for (let time = 0; time < 2; time++) {
          writeFileSync(file, "throw new Error('the new edition is broken');");
          await assert.rejects(pool.reload(), { code: 'start_failed', message: /the new edition is broken/ });
        }
        const before = running.sent();
        await until(() => running.sent() > before + 20);
        writeFileSync(file, '');
        await pool.reload();
        await running.stop();
        await until(() => pool.stats().workers.length === 2);
        assert.deepEqual([pool.stats().counts.dropped, pool.stats().counts.crashed], [0, 0]);
      });
    });

    it('runs handlers whose file is gone as long as it has them', async (test) => {
      const file = join(folder(test), 'handler.mjs');
      writeFileSync(file, 'export default () => 1;');
      await withPool({ kind, handlers: { it: file } }, async (pool) => {
        assert.equal(await pool.run(0), 1);
        unlinkSync(file);
        assert.equal(await pool.run(0), 1);
        await assert.rejects(pool.reload(), { code: 'start_failed', message: /handler\.mjs/ });
        assert.equal(await pool.run(0), 1);
      });
    });

    it('keeps its workers when a handler is broken in the new edition', async (test) => {
      const file = join(folder(test), 'handler.mjs');
      writeFileSync(file, 'export default () => 1;');
      await withPool({ kind, handlers: { it: file, never: '/nowhere/never.mjs' } }, async (pool) => {
        assert.equal(await pool.run(0, { type: 'it' }), 1);
        writeFileSync(file, 'export default () => {');
        await assert.rejects(pool.reload(), { code: 'start_failed' });
        assert.equal(await pool.run(0, { type: 'it' }), 1);
        writeFileSync(file, 'export default () => 2;');
        await pool.reload();
        assert.equal(await pool.run(0, { type: 'it' }), 2);
      });
    });
  });
}

describe('a pool of processes', () => {
  it('renews workers that take too much memory', async () => {
    await withPool({ recycle: { rss: 20_000_000 } }, async (pool) => {
      await pool.ready;
      await until(() => pool.stats().workers.some(({ worker }) => worker >= 2));
      assert.equal(await pool.run(1, { type: 'echo' }), 1);
    });
  });
});
