// Limits of pools: queues, deadlines, concurrency; and the order of messages.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { FILE, HANDLERS, KINDS, folder, until, withPool } from './pools.mjs';

for (const kind of KINDS) {
  describe(`the limits of a pool of the kind ${kind}`, () => {
    it('accepts so many messages beyond those that run, and refuses the rest at once', async () => {
      await withPool({ kind, queueMax: 4 }, async (pool) => {
        await pool.ready;
        const all = Array.from({ length: 500 }, () => pool.run(20, { type: 'waits' }).catch((error) => error));
        const refused = (await Promise.all(all)).filter((reply) => reply !== 20);
        assert.equal(refused.length, 495);
        assert.deepEqual([refused[0].code, refused[0].message], ['queue_full', 'queue of "pool" is full (queueMax 4)']);
      });
    });

    it('accepts with queueMax 0 what a worker can run now', async () => {
      await withPool({ kind, queueMax: 0, size: { min: 2, max: 2 } }, async (pool) => {
        await pool.ready;
        await until(() => pool.stats().workers.every(({ phase }) => phase === 'ready'));
        const settled = await Promise.allSettled([1, 2, 3, 4].map((ms) => pool.run(ms * 10, { type: 'waits' })));
        assert.deepEqual(settled.map(({ status }) => status), ['fulfilled', 'fulfilled', 'rejected', 'rejected']);
        assert.equal(await pool.run(1, { type: 'waits' }), 1);
      });
    });

    it("has queueMax 'auto' follow its size", async () => {
      await withPool({ kind, queueMax: 'auto', size: { min: 1, max: 2 } }, async (pool) => {
        await pool.ready;
        const accepted = async () => {
          const before = pool.stats().counts.refused;
          await Promise.allSettled(Array.from({ length: 40 }, () => pool.run(40, { type: 'waits' })));
          return 40 - (pool.stats().counts.refused - before);
        };
        const few = await accepted();
        assert.ok(few >= 5 && few <= 7, String(few));
        pool.resize({ min: 1, max: 4 });
        const more = await accepted();
        assert.ok(more >= 17 && more <= 22, String(more));
      });
    });

    it('refuses what its queue has no bytes for', async () => {
      await withPool({ kind, queueBytesMax: 1_000 }, async (pool) => {
        await pool.ready;
        const text = 'x'.repeat(398);
        const all = [pool.run(50, { type: 'waits' }), ...Array.from({ length: 4 }, () => pool.run(text, { type: 'echo' }))];
        const settled = await Promise.allSettled(all);
        assert.deepEqual(settled.map(({ status }) => status), ['fulfilled', 'fulfilled', 'fulfilled', 'rejected', 'rejected']);
        assert.deepEqual([settled[4].reason.code, settled[4].reason.message], ['queue_bytes_full', 'queue of "pool" has no room for 400 bytes more (queueBytesMax 1000)']);
        // A lone message may always wait; otherwise it could never be sent.
        const [first, second] = [pool.run(50, { type: 'waits' }), pool.run('x'.repeat(5_000), { type: 'echo' })];
        assert.equal((await second).length, 5_000);
        await first;
      });
    });

    it('says when to wait and when to go on', async () => {
      await withPool({ kind, queueMax: 100 }, async (pool) => {
        await pool.ready;
        const events = [];
        for (const name of ['needsDrain', 'drain', 'idle']) pool.on(name, () => events.push([name, pool.needsDrain]));
        const all = Array.from({ length: 80 }, () => pool.run(2, { type: 'waits' }));
        assert.equal(pool.needsDrain, true);
        await Promise.all(all);
        assert.deepEqual(events, [['needsDrain', true], ['drain', false], ['idle', false]]);
      });
    });

    it('does not wait longer in the queue than a message may, nor in all', async () => {
      await withPool({ kind, deadlines: { queue: 60 } }, async (pool) => {
        await pool.ready;
        const first = pool.run(200, { type: 'busy' });
        const [queue, total, patient] = await Promise.allSettled([
          pool.run(1, { type: 'echo' }),
          pool.run(2, { type: 'echo', deadline: { total: 40 } }),
          pool.run(3, { type: 'echo', deadline: { queue: 10_000 } }),
        ]);
        assert.deepEqual([queue.reason.phase, queue.reason.limitMs, total.reason.phase, total.reason.limitMs, patient.value], ['queue', 60, 'total', 40, 3]);
        assert.equal(await first, 200);
        await assert.rejects(pool.run({}, { type: 'heeds', deadline: 50 }), { code: 'deadline', phase: 'total', limitMs: 50 });
        await assert.rejects(pool.run({}, { type: 'heeds', deadline: { run: 30 } }), { code: 'deadline', phase: 'run', limitMs: 30 });
        const left = await pool.run(null, { type: 'remaining', deadline: 5_000 });
        assert.ok(left > 1_000 && left <= 5_001, String(left));
        assert.equal(pool.stats().workers[0].worker, 1);
      });
    });

    it('does not count the start of a worker as a run', async (test) => {
      const start = join(folder(test), 'start.mjs');
      writeFileSync(start, 'export const onStart = () => new Promise((resolve) => setTimeout(resolve, 1_200));');
      await withPool({ kind, start, size: { min: 0, max: 1 }, deadlines: { run: 1_000 } }, async (pool) => {
        assert.equal(await pool.run(1, { type: 'echo' }), 1);
      });
    });

    it('runs so many of a type at a time, and others meanwhile', async () => {
      const handlers = { ...HANDLERS, slow: { file: FILE, export: 'waits', concurrency: 1 } };
      await withPool({ kind, handlers, size: { min: 2, max: 2 }, concurrency: 4 }, async (pool) => {
        let running = 0;
        let most = 0;
        const watch = setInterval(() => (most = Math.max(most, pool.stats().types.slow?.running ?? 0)), 1);
        const slow = Array.from({ length: 8 }, (_, index) => pool.run(10 + index, { type: 'slow' }));
        const began = performance.now();
        await Promise.all(Array.from({ length: 20 }, (_, index) => pool.run(index, { type: 'echo' })));
        running = pool.stats().types.slow.answered;
        assert.ok(running < 8, 'others do not wait for those that are held back');
        assert.deepEqual(await Promise.all(slow), Array.from({ length: 8 }, (_, index) => 10 + index));
        clearInterval(watch);
        assert.equal(most, 1);
      });
    });

    it('frees what a limit holds back when the one before it is given up', async () => {
      const handlers = { ...HANDLERS, slow: { file: FILE, export: 'waits', concurrency: 1 } };
      await withPool({ kind, handlers, size: { min: 2, max: 2 }, credit: 0 }, async (pool) => {
        await until(() => pool.stats().workers.every(({ phase }) => phase === 'ready'));
        await Promise.all([pool.run(1, { type: 'slow' }), pool.run(1, { type: 'busy' })]);
        const controller = new AbortController();
        const first = pool.run(150, { type: 'slow' });
        const short = pool.run(10, { type: 'busy' });
        const aborted = pool.run(1, { type: 'slow', signal: controller.signal });
        const others = [2, 3, 4].map((ms) => pool.run(ms, { type: 'slow', deadline: { queue: 5_000 } }));
        // Its worker finds all other messages held back by the limit.
        await short;
        const busy = [pool.run(400, { type: 'busy' }), pool.run(300, { type: 'busy', priority: 5 })];
        await first;
        // The next one is released now, and both workers are busy.
        controller.abort();
        await assert.rejects(aborted, { code: 'aborted' });
        assert.deepEqual(await Promise.all([...busy, ...others]), [400, 300, 2, 3, 4]);
      });
    });

    it('keeps no message of a limited type beyond its deadline', async () => {
      const handlers = { ...HANDLERS, slow: { file: FILE, export: 'waits', concurrency: 1 } };
      await withPool({ kind, handlers, size: { min: 2, max: 2 }, credit: 0 }, async (pool) => {
        await pool.ready;
        const first = pool.run(150, { type: 'slow' });
        const settled = await Promise.allSettled(Array.from({ length: 50 }, () => pool.run(1, { type: 'slow', deadline: { queue: 30 } })));
        assert.ok(settled.every(({ reason }) => reason?.phase === 'queue'));
        assert.equal(pool.queueSize, 0);
        assert.equal(await first, 150);
        assert.equal(await pool.run(1, { type: 'slow' }), 1);
      });
    });

    it('runs so many messages of one worker at a time as its concurrency says', async () => {
      await withPool({ kind, concurrency: 10 }, async (pool) => {
        await pool.ready;
        const began = performance.now();
        await Promise.all(Array.from({ length: 40 }, () => pool.run(100, { type: 'waits' })));
        const took = performance.now() - began;
        assert.ok(took >= 390 && took < 2_000, String(took));
      });
    });

    it('runs two thousand at a time, and as many again after they were given up', async () => {
      await withPool({ kind, concurrency: 2_048, killGrace: 5_000 }, async (pool) => {
        for (let round = 0; round < 3; round++) {
          const controller = new AbortController();
          const all = Array.from({ length: 2_048 }, () => pool.run({}, { type: 'heeds', signal: controller.signal }));
          await until(() => pool.stats().types.heeds.running === 2_048);
          await pool.run(1, { type: 'echo', deadline: { queue: 30 } }).catch(() => {});
          controller.abort();
          for (const { reason } of await Promise.allSettled(all)) assert.equal(reason.code, 'aborted');
          await until(() => pool.stats().workers[0].inFlight === 0);
        }
        assert.deepEqual([await pool.run(5, { type: 'echo' }), pool.stats().workers[0].worker], [5, 1]);
      });
    });

    it('has higher priorities go first, and none wait for ever', async () => {
      await withPool({ kind, credit: 0 }, async (pool) => {
        await pool.ready;
        const order = [];
        const all = [pool.run(30, { type: 'busy' })];
        const send = (name, priority) => all.push(pool.run(name, { type: 'echo', priority }).then((value) => order.push(value)));
        for (let index = 0; index < 3; index++) send(`low${index}`, -1);
        for (let index = 0; index < 3; index++) send(`usual${index}`, 0);
        for (let index = 0; index < 30; index++) send(`high${index}`, 5);
        await Promise.all(all);
        const highs = order.filter((name) => name.startsWith('high'));
        assert.deepEqual(highs, [...highs].sort((a, b) => Number(a.slice(4)) - Number(b.slice(4))));
        assert.ok(order.slice(0, 7).every((name) => name.startsWith('high')), order.join());
        // Every eighth message is the oldest of all.
        assert.ok(order.indexOf('low0') < 10 && order.indexOf('low0') < order.indexOf('high29'), order.join());
        assert.ok(order.indexOf('usual0') < order.length - 1);
      });
    });

    it('gives messages of one affinity to one worker, and to another when that is gone', async () => {
      await withPool({ kind, size: { min: 3, max: 3 }, concurrency: 2 }, async (pool) => {
        await pool.ready;
        await until(() => pool.stats().workers.every(({ phase }) => phase === 'ready'));
        const byKey = new Map();
        const send = async (key) => {
          const id = await pool.run(null, { type: 'who', affinity: key });
          byKey.set(key, new Set([...(byKey.get(key) ?? []), id]));
        };
        const keys = ['a', 'b', 'c', 'd', 'e'];
        await Promise.all(Array.from({ length: 200 }, (_, index) => Promise.all([send(keys[index % 5]), pool.run(1, { type: 'waits' })])));
        for (const [key, ids] of byKey) assert.equal(ids.size, 1, `${key} went to ${[...ids]}`);
        const [first] = byKey.get('a');
        await assert.rejects(pool.run({}, { type: 'exits', affinity: 'a' }), { code: 'crashed', worker: first });
        const ids = new Set(await Promise.all(Array.from({ length: 5 }, () => pool.run(null, { type: 'who', affinity: 'a' }))));
        assert.ok(!ids.has(first) && ids.size === 1, [...ids].join());
      });
    });

    it('has messages that wait for their worker run by another when that ends', async () => {
      await withPool({ kind, size: { min: 2, max: 2 }, credit: 0 }, async (pool) => {
        await pool.ready;
        await until(() => pool.stats().workers.every(({ phase }) => phase === 'ready'));
        const first = await pool.run(null, { type: 'who', affinity: 'a' });
        const lost = pool.run({}, { type: 'exits', affinity: 'a' });
        const after = Array.from({ length: 20 }, () => pool.run(null, { type: 'who', affinity: 'a' }));
        await assert.rejects(lost, { code: 'crashed', worker: first });
        const ids = new Set(await Promise.all(after));
        assert.ok(!ids.has(first) && ids.size === 1, [...ids].join());
      });
    });

    it('keeps the limit of a type for messages that wait for their worker', async () => {
      const handlers = { ...HANDLERS, slow: { file: FILE, export: 'waits', concurrency: 1 } };
      await withPool({ kind, handlers, size: { min: 2, max: 2 }, credit: 0 }, async (pool) => {
        await pool.ready;
        await until(() => pool.stats().workers.every(({ phase }) => phase === 'ready'));
        await Promise.all([pool.run(20, { type: 'waits', affinity: 'a' }), pool.run(20, { type: 'waits', affinity: 'b' })]);
        let most = 0;
        const watch = setInterval(() => (most = Math.max(most, pool.stats().types.slow?.running ?? 0)), 1);
        // The first waiting message is bound to the worker that is busy longer; the other worker takes the second one meanwhile.
        const all = [pool.run(20, { type: 'waits', affinity: 'a' }), pool.run(60, { type: 'waits', affinity: 'b' })];
        for (const affinity of ['b', 'a', 'b', 'a']) all.push(pool.run(100, { type: 'slow', affinity }));
        await Promise.all(all);
        clearInterval(watch);
        assert.equal(most, 1);
      });
    });

    it('starts another worker when messages wait', async () => {
      await withPool({ kind, size: { min: 1, max: 2 } }, async (pool) => {
        await pool.ready;
        const all = Array.from({ length: 30 }, () => pool.run(20, { type: 'busy' }));
        await until(() => pool.stats().workers.length === 2);
        await Promise.all(all);
      });
    });

    it('spreads quick and slow messages so that no quick one waits behind a slow one', async () => {
      await withPool({ kind, size: { min: 2, max: 2 } }, async (pool) => {
        await pool.ready;
        await until(() => pool.stats().workers.every(({ phase }) => phase === 'ready'));
        await Promise.all(Array.from({ length: 500 }, () => pool.run(1, { type: 'echo' })));
        const slow = pool.run(1_500, { type: 'busy' });
        const began = performance.now();
        for (let index = 0; index < 20; index++) await pool.run(index, { type: 'echo' });
        await Promise.all(Array.from({ length: 500 }, () => pool.run(1, { type: 'echo' })));
        assert.ok(performance.now() - began < 1_400);
        await slow;
      });
    });

    it('gives messages that come one by one to the worker that was used last', async () => {
      await withPool({ kind, size: { min: 3, max: 3 } }, async (pool) => {
        await until(() => pool.stats().workers.every(({ phase }) => phase === 'ready'));
        const ids = new Set();
        for (let index = 0; index < 60; index++) ids.add(await pool.run(null, { type: 'who' }));
        assert.equal(ids.size, 1);
      });
    });

    it('heeds deadlines and signals while a message waits to be run again', async () => {
      await withPool({ kind, retry: { attempts: 5, after: ['error'], backoff: 60_000 } }, async (pool) => {
        await pool.ready;
        const controller = new AbortController();
        const aborted = pool.run('again', { type: 'rejects', signal: controller.signal });
        const overdue = pool.run('again', { type: 'rejects', deadline: 300 });
        await until(() => pool.stats().counts.retried === 2);
        controller.abort();
        await assert.rejects(aborted, { code: 'aborted' });
        await assert.rejects(overdue, { code: 'deadline', phase: 'total', limitMs: 300 });
        const waiting = pool.run('again', { type: 'rejects' });
        await until(() => pool.stats().counts.retried === 3);
        await Promise.all([pool.close({ drain: false }), assert.rejects(waiting, { code: 'closed' })]);
      });
    });

    it('refuses what run() is given that cannot be', async () => {
      await withPool({ kind }, async (pool) => {
        const bad = [
          [{ priority: 1.5 }, RangeError], [{ attempts: 0 }, RangeError], [{ deadline: -1 }, RangeError], [{ deadline: { run: 'x' } }, RangeError], [{ signal: {} }, TypeError],
          [{ affinity: 5 }, TypeError], [{ transfer: [5] }, kind === 'thread' ? { code: 'not_sendable' } : TypeError], [{ transfer: {} }, TypeError], [{ type: 5 }, { code: 'unknown_type' }],
        ];
        for (const [options, error] of bad) await assert.rejects(pool.run(1, { type: 'echo', ...options }), error, JSON.stringify(options));
      });
    });

    it('takes buffers away once they are accepted, and not before', async () => {
      await withPool({ kind, queueMax: 0 }, async (pool) => {
        await pool.ready;
        const buffer = new Uint8Array([1, 2, 3]).buffer;
        const busy = pool.run(30, { type: 'busy' });
        await assert.rejects(pool.run(buffer, { type: 'echo', transfer: [buffer] }), { code: 'queue_full' });
        assert.equal(buffer.byteLength, 3);
        await busy;
        const reply = pool.run(buffer, { type: 'echo', transfer: [buffer] });
        assert.equal(buffer.byteLength, 0);
        assert.deepEqual(new Uint8Array(await reply), new Uint8Array([1, 2, 3]));
      });
    });
  });
}
