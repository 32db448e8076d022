// Pools of processes and of threads: messages, replies, statistics.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Pool } from '../dist/pool/index.js';
import { FILE, HANDLERS, KINDS, folder, until, withPool } from './pools.mjs';

for (const kind of KINDS) {
  describe(`a pool whose workers are of the kind ${kind}`, () => {
    it('answers each message by the handler of its type', async () => {
      await withPool({ kind }, async (pool) => {
        assert.equal(await pool.run('a', { type: 'echo' }), 'a');
        assert.equal(await pool.run('b', { type: 'echoLater' }), 'b');
        assert.equal(await pool.run(undefined, { type: 'type' }), 'type');
      });
    });

    it('gives values as they are', async () => {
      await withPool({ kind }, async (pool) => {
        const circle = { name: 'circle' };
        circle.self = circle;
        const values = [
          undefined, null, 0, -0, NaN, Infinity, 1.5, '', 'é\u{1f600}\ud800', true, 12345678901234567890n, [], {}, [undefined, 1], { a: undefined }, new Date(5), /a+/gi,
          new Map([[{ a: 1 }, new Set([1])]]), circle, new Uint8Array([0, 255, 1]), new Float64Array([0.5, -1]), new ArrayBuffer(3), JSON.parse('{"__proto__":1}'),
          JSON.parse('['.repeat(40) + ']'.repeat(40)), new RangeError('sent'),
        ];
        for (const value of values) {
          for (const type of ['echo', 'echoLater']) assert.deepEqual(await pool.run(value, { type }), value);
        }
      });
    });

    it('gives fifty megabytes both ways', async () => {
      await withPool({ kind }, async (pool) => {
        const bytes = new Uint8Array(50_000_000);
        for (let at = 0; at < bytes.length; at += 4_099) bytes[at] = at;
        const back = await pool.run({ bytes, after: 'it' }, { type: 'echo' });
        assert.equal(back.after, 'it');
        assert.ok(Buffer.from(back.bytes.buffer, back.bytes.byteOffset, back.bytes.length).equals(bytes));
        const text = 'é'.repeat(20_000_000);
        assert.ok((await pool.run(text, { type: 'echo' })) === text);
      });
    });

    it('gives bodies of every length near the bounds of frames', async () => {
      await withPool({ kind }, async (pool) => {
        const lengths = [16_383, 16_384, 16_385, 32_700, 32_768, 65_536, 262_144, 524_287, 524_288, 524_289, 1_048_540, 1_048_576, 1_048_577, 2_097_152];
        const texts = lengths.flatMap((length) => ['x'.repeat(length), 'é'.repeat(length / 2)]);
        const replies = await Promise.all(texts.map((text) => pool.run(text, { type: 'echo' })));
        for (const [index, text] of texts.entries()) assert.ok(replies[index] === text, `text ${index}`);
      });
    });

    it('has a worker begin with what it was given while its program submits more', async (context) => {
      await withPool({ kind, concurrency: 64 }, async (pool) => {
        await pool.ready;
        const file = join(folder(context), 'begun');
        const controller = new AbortController();
        const runs = Array.from({ length: 16 }, () => pool.run({ file }, { type: 'heeds', signal: controller.signal }));
        const settled = Promise.allSettled(runs);
        // Blocks this turn of the event loop until the worker has started.
        for (const end = performance.now() + 20_000; !existsSync(file); ) assert.ok(performance.now() < end, 'the worker waits for the end of the turn');
        controller.abort();
        for (const { reason } of await settled) assert.equal(reason.code, 'aborted');
      });
    });

    it('gives each caller of many at once the reply to its own message', async () => {
      await withPool({ kind, size: { min: 2, max: 2 } }, async (pool) => {
        const messages = Array.from({ length: 5_000 }, (_, index) => ({ index, text: 'x'.repeat(index % 300) }));
        const replies = await Promise.all(messages.map((message, index) => pool.run(message, { type: index % 2 === 0 ? 'echo' : 'echoLater' })));
        assert.deepEqual(replies, messages);
        const { workers, counts } = pool.stats();
        assert.equal(workers.reduce((sum, { messages: count }) => sum + count, 0), 5_000);
        assert.equal(counts.answered, 5_000);
      });
    });

    it('is not told apart when one object is sent twice, and does not change it', async () => {
      await withPool({ kind }, async (pool) => {
        const message = Object.freeze({ list: Object.freeze([1]) });
        const other = { list: [1] };
        const replies = await Promise.all([pool.run(message, { type: 'echo' }), pool.run(message, { type: 'echo' }), pool.run(other, { type: 'mutates' }), pool.run(other, { type: 'mutates' })]);
        assert.deepEqual(replies, [message, message, { list: [1, 'changed'] }, { list: [1, 'changed'] }]);
        assert.deepEqual(other, { list: [1] });
      });
    });

    it('runs messages in their order when it has one worker', async () => {
      await withPool({ kind }, async (pool) => {
        const order = [];
        await Promise.all(Array.from({ length: 300 }, (_, index) => pool.run(index, { type: 'echo' }).then((at) => order.push(at))));
        assert.deepEqual(order, [...order.keys()]);
      });
    });

    it('finds handlers in files, their exports, and in the text of a function', async () => {
      const handlers = {
        path: FILE,
        url: new URL('handlers/pool.mjs', import.meta.url),
        relative: 'handlers/pool.mjs',
        named: { file: FILE, export: 'handler' },
        text: { source: 'return { message, type: ctx.type }' },
      };
      await withPool({ kind, handlers, root: new URL('.', import.meta.url).pathname }, async (pool) => {
        for (const type of ['path', 'url', 'relative']) assert.deepEqual(await pool.run(1, { type }), { default: 1 });
        assert.deepEqual(await pool.run(1, { type: 'named' }), { handler: 1 });
        assert.deepEqual(await pool.run(1, { type: 'text' }), { message: 1, type: 'text' });
        assert.deepEqual(await pool.run(2, { file: FILE, export: 'echo' }), 2);
        assert.deepEqual(await pool.run(2, { file: 'handlers/pool.mjs' }), { default: 2 });
      });
    });

    it('needs no type where it has one', async () => {
      await withPool({ kind, handlers: { only: { file: FILE, export: 'echo' } } }, async (pool) => assert.equal(await pool.run(3), 3));
    });

    it('answers for a type that cannot be loaded, and for one that is not there', async () => {
      const handlers = { missing: '/nowhere/at-all.mjs', nothing: { file: FILE, export: 'nothing' }, broken: { source: 'return (' }, echo: HANDLERS.echo };
      await withPool({ kind, handlers }, async (pool) => {
        await assert.rejects(pool.run(1, { type: 'missing' }), { code: 'handler_error', message: /at-all\.mjs/ });
        await assert.rejects(pool.run(1, { type: 'nothing' }), { code: 'handler_error', message: /exports no function named nothing/ });
        await assert.rejects(pool.run(1, { type: 'broken' }), { code: 'handler_error', message: /[Uu]nexpected/ });
        await assert.rejects(pool.run(1, { type: 'other' }), { code: 'unknown_type', message: /"other".*"missing".*"echo"/ });
        await assert.rejects(pool.run(1, { type: 'toString' }), { code: 'unknown_type' });
        await assert.rejects(pool.run(1, { type: 'qoper8_terminate' }), { code: 'unknown_type' });
        await assert.rejects(pool.run(1), TypeError);
        assert.equal(await pool.run(1, { type: 'echo' }), 1);
        assert.equal(pool.stats().workers.length, 1);
      });
    });

    it('refuses what cannot be sent, and nothing else is changed by it', async () => {
      await withPool({ kind }, async (pool) => {
        const odd = [() => 1, { a: { b: () => 1 } }, Symbol('no'), new WeakMap(), Promise.resolve(), { get a() { throw new Error('mine'); } }];
        for (const value of odd) await assert.rejects(pool.run(value, { type: 'echo' }), { code: 'not_sendable', message: /the message cannot be sent/ });
        assert.equal(await pool.run('after', { type: 'echo' }), 'after');
        assert.equal(pool.stats().counts.refused, odd.length);
      });
    });

    it('tells workers who they are and what they were given', async () => {
      const options = { kind, name: 'named', data: { since: new Date(7) }, env: { ...process.env, POOL_TEST: 'from the pool' }, argv: ['one', 'two'], start: new URL('handlers/pool-start.mjs', import.meta.url) };
      await withPool(options, async (pool) => {
        const { id, pool: name, data, env, argv, state } = await pool.run(null, { type: 'worker' });
        assert.deepEqual({ id, name, data, env, argv }, { id: 1, name: 'named', data: { since: new Date(7) }, env: 'from the pool', argv: ['one', 'two'] });
        assert.deepEqual(state, { started: 1, from: 'the start hook' });
      });
    });

    it('counts what it does, by worker and by type, and begins anew when asked', async () => {
      await withPool({ kind }, async (pool) => {
        for (let index = 0; index < 10; index++) await pool.run(index, { type: 'echo' });
        await pool.run(30, { type: 'waits' });
        await assert.rejects(pool.run('no', { type: 'rejects' }));
        const { workers: [worker], types, run, wait, counts } = pool.stats();
        assert.deepEqual([types.echo.answered, types.waits.answered, types.rejects.failed, types.echo.running], [10, 1, 1, 0]);
        assert.deepEqual([run.count, wait.count, counts.answered, counts.failed, worker.messages, worker.errors], [11, 11, 11, 1, 12, 1]);
        assert.ok(types.waits.run.min >= 28 && run.max >= types.waits.run.max && run.p50 <= types.waits.run.max, JSON.stringify(run));
        assert.ok(worker.utilization > 0 && worker.utilization <= 1);
        pool.resetStats();
        const after = pool.stats();
        assert.deepEqual([after.run.count, after.types.waits.run.count, after.wait.max, after.counts.answered], [0, 0, 0, 11]);
      });
    });

    it('tells of workers that start, get ready and stop', async () => {
      const events = [];
      await withPool({ kind }, async (pool) => {
        for (const name of ['workerStart', 'workerReady', 'workerStop', 'idle']) pool.on(name, (event) => events.push([name, event?.worker, event?.cause]));
        await pool.ready;
        await pool.run(1, { type: 'echo' });
        await pool.close();
      });
      assert.deepEqual(events, [['workerReady', 1, undefined], ['idle', undefined, undefined], ['workerStop', 1, 'closed']]);
    });

    it('passes on what handlers log', async () => {
      await withPool({ kind }, async (pool) => {
        const entries = [];
        pool.on('log', (worker, { level, message, fields }) => entries.push({ worker, level, message, fields }));
        await pool.run('told', { type: 'logs' });
        await until(() => entries.length > 0);
        assert.deepEqual(entries, [{ worker: 1, level: 'info', message: 'told', fields: { of: 'pool' } }]);
      });
    });

    it('has a request answered by a router, a function and an object with fetch', async () => {
      for (const name of ['router', 'function', 'fetch']) {
        await withPool({ kind, handlers: undefined, handler: new URL(`handlers/pool-${name}.mjs`, import.meta.url) }, async (pool) => {
          assert.deepEqual(await pool.run({ width: 3 }, { type: 'double' }), { width: 6 }, name);
          await assert.rejects(pool.run({}, { type: 'missing' }), { code: 'handler_error', status: 404 }, name);
        });
      }
    });
  });
}

describe('the options of a pool', () => {
  it('are refused with what they are, and what is accepted', () => {
    const bad = [
      [undefined, /takes an object/],
      [{}, /needs `handlers`/],
      [{ handlers: {}, handler: 'a' }, /not both/],
      [{ handlers: HANDLERS, sizes: 1 }, /no option "sizes"; there are .*size/],
      [{ handlers: HANDLERS, kind: 'fork' }, /'process' or 'thread'/],
      [{ handlers: HANDLERS, kind: 'thread', cwd: '/' }, /cwd is for workers that are processes/],
      [{ handlers: HANDLERS, kind: 'thread', recycle: { rss: 5 } }, /resourceLimits/],
      [{ handlers: HANDLERS, size: { min: 3, max: 2 } }, /size.min is a whole number from 0 to 2, not 3/],
      [{ handlers: HANDLERS, size: { max: 0 } }, /size.max is a whole number from 1 to 1024, not 0/],
      [{ handlers: HANDLERS, size: { maximum: 4 } }, /size has no "maximum"; there are min, max/],
      [{ handlers: HANDLERS, deadlines: { runs: 4 } }, /deadlines has no "runs"/],
      [{ handlers: HANDLERS, retry: { attempts: 2, after: ['crashed'] } }, /retry.after has 'crash', 'deadline' and 'error'/],
      [{ handlers: HANDLERS, concurrency: 1.5 }, /concurrency is a whole number/],
      [{ handlers: HANDLERS, queueMax: '5' }, /queueMax is a whole number of at least 0, not "5"/],
      [{ handlers: HANDLERS, deadlines: { run: -1 } }, /deadlines.run is milliseconds/],
      [{ handlers: HANDLERS, deadlines: { run: '5s' } }, /deadlines.run is milliseconds .*"5s"/],
      [{ handlers: { a: 5 } }, /handlers.a/],
      [{ handlers: { a: {} } }, /handlers.a/],
      [{ handlers: { a: { file: FILE, exports: 'b' } } }, /handlers.a has no "exports"/],
      [{ handlers: HANDLERS, recycle: { messages: 0 } }, /recycle.messages/],
    ];
    for (const [options, message] of bad) assert.throws(() => new Pool(options), { message }, JSON.stringify(options));
  });
});
