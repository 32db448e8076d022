// Messages that are answered in parts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KINDS, until, withPool } from './pools.mjs';

for (const kind of KINDS) {
  describe(`answers in parts, in a pool of the kind ${kind}`, () => {
    async function all(stream) {
      const parts = [];
      for await (const part of stream) parts.push(part);
      return parts;
    }

    it('come in their order, and the reply after them', async () => {
      await withPool({ kind }, async (pool) => {
        const stream = pool.stream({ parts: 200, bytes: 3_000 }, { type: 'sends' });
        const parts = await all(stream);
        assert.deepEqual(parts.map(({ part }) => part), [...Array(200).keys()]);
        assert.deepEqual(await stream.result, { parts: 200 });
        assert.deepEqual(await all(pool.stream({ parts: 5 }, { type: 'sendsAtOnce' })), [0, 1, 2, 3, 4]);
        assert.deepEqual(await all(pool.stream(7, { type: 'echo' })), []);
      });
    });

    it('do not settle run() before the reply', async () => {
      await withPool({ kind }, async (pool) => {
        assert.deepEqual(await pool.run({ parts: 3 }, { type: 'sends' }), { parts: 3 });
        const parts = [];
        assert.deepEqual(await pool.run({ parts: 3 }, { type: 'sends', onPart: ({ part }) => parts.push(part) }), { parts: 3 });
        assert.deepEqual(parts, [0, 1, 2]);
        assert.equal(await pool.run({ parts: 2 }, { type: 'sendsAtOnce', onPart() {} }), 'done');
      });
    });

    it('are large, one by one and together', async () => {
      await withPool({ kind }, async (pool) => {
        const parts = await all(pool.stream({ parts: 4, bytes: 3_000_000 }, { type: 'sends' }));
        assert.deepEqual(parts.map(({ part, text }) => [part, text.length]), [0, 1, 2, 3].map((part) => [part, 3_000_000]));
      });
    });

    it('have the handler wait for whoever takes them', async () => {
      await withPool({ kind, concurrency: 2, killGrace: 10_000 }, async (pool) => {
        const stream = pool.stream(null, { type: 'sendsForEver' });
        await stream.next();
        let before = -1;
        // It stops by itself while no parts are read.
        const sent = await until(async () => {
          const now = await pool.run(null, { type: 'sentSoFar' });
          await new Promise((resolve) => setTimeout(resolve, 20));
          const hasStopped = now > 0 && now === before;
          before = now;
          return hasStopped && now;
        });
        assert.ok(sent < 2_000, String(sent));
        for (let taken = 0; taken < 500; taken++) assert.equal((await stream.next()).done, false);
        await until(async () => (await pool.run(null, { type: 'sentSoFar' })) > sent);
        await stream.return();
        await assert.rejects(stream.result, { code: 'aborted' });
        assert.equal(await pool.run(1, { type: 'echo' }), 1);
        await until(() => pool.stats().workers[0].inFlight === 0);
        assert.equal(pool.stats().workers[0].worker, 1);
      });
    });

    it('stop the handler when the loop is left', async () => {
      // It ends by itself, however slow the machine is.
      await withPool({ kind, killGrace: 10_000 }, async (pool) => {
        for await (const { at } of pool.stream(null, { type: 'sendsForEver' })) if (at === 10) break;
        assert.deepEqual([await pool.run(1, { type: 'echo' }), pool.stats().counts.aborted, pool.stats().workers[0].worker], [1, 1, 1]);
      });
    });

    it('are followed by the error, when there is one', async () => {
      await withPool({ kind }, async (pool) => {
        for (const [message, code] of [[{ parts: 3, fail: 'in the middle' }, 'handler_error'], [{ parts: 3, exit: 4 }, 'crashed']]) {
          const stream = pool.stream(message, { type: 'sends' });
          const parts = [];
          await assert.rejects(async () => {
            for await (const { part } of stream) parts.push(part);
          }, { code });
          assert.deepEqual(parts, [0, 1, 2]);
          await assert.rejects(stream.result, { code });
        }
        assert.equal(await pool.run(1, { type: 'echo' }), 1);
      });
    });

    it('are over when the message is aborted or overdue', async () => {
      await withPool({ kind }, async (pool) => {
        const controller = new AbortController();
        const stream = pool.stream(null, { type: 'sendsForEver', signal: controller.signal });
        await stream.next();
        controller.abort();
        await assert.rejects(all(stream), { code: 'aborted' });
        await assert.rejects(all(pool.stream(null, { type: 'sendsForEver', deadline: 80 })), { code: 'deadline', phase: 'total' });
        await assert.rejects(all(pool.stream(() => 1, { type: 'echo' })), { code: 'not_sendable' });
      });
    });

    it('abort the message when whoever takes them fails', async () => {
      await withPool({ kind }, async (pool) => {
        const mine = new Error('mine');
        const takers = [
          () => {
            throw mine;
          },
          async () => {
            throw mine;
          },
        ];
        for (const onPart of takers) {
          for (const [message, type] of [[null, 'sendsForEver'], [{ parts: 3 }, 'sendsAtOnce'], [{ parts: 3 }, 'sends']]) {
            await assert.rejects(pool.run(message, { type, onPart }), (error) => error.code === 'aborted' && error.cause === mine, type);
          }
        }
        assert.equal(await pool.run(1, { type: 'echo' }), 1);
        await until(() => pool.stats().workers[0].inFlight === 0);
      });
    });

    it('may be given up by whoever takes one', async () => {
      await withPool({ kind, killGrace: 10_000 }, async (pool) => {
        for (const type of ['sendsForEver', 'sendsAtOnce']) {
          const controller = new AbortController();
          await assert.rejects(pool.run({ parts: 3 }, { type, signal: controller.signal, onPart: () => controller.abort() }), { code: 'aborted' });
        }
        assert.equal(await pool.run(1, { type: 'echo' }), 1);
        await until(() => pool.stats().workers[0].inFlight === 0);
        assert.equal(pool.stats().workers[0].worker, 1);
      });
    });

    it('wait for a promise of whoever takes them', async () => {
      await withPool({ kind }, async (pool) => {
        const order = [];
        await pool.run({ parts: 3, bytes: 100_000 }, {
          type: 'sends',
          onPart: async ({ part }) => {
            order.push(`begin ${part}`);
            await new Promise((resolve) => setTimeout(resolve, 5));
            order.push(`end ${part}`);
          },
        });
        assert.deepEqual([...order].sort(), ['begin 0', 'begin 1', 'begin 2', 'end 0', 'end 1', 'end 2']);
      });
    });

    it('of many messages do not mix', async () => {
      await withPool({ kind, size: { min: 2, max: 2 }, concurrency: 8 }, async (pool) => {
        const counts = await Promise.all(Array.from({ length: 30 }, async (_, index) => {
          const stream = pool.stream({ parts: index + 1, bytes: 100 * index }, { type: 'sends' });
          const parts = await all(stream);
          assert.deepEqual(parts.map(({ part, text = '' }) => [part, text.length]), Array.from({ length: index + 1 }, (__, part) => [part, 100 * index]));
          return (await stream.result).parts;
        }));
        assert.deepEqual(counts, Array.from({ length: 30 }, (_, index) => index + 1));
      });
    });
  });
}
