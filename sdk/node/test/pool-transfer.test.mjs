// Values passed to threads without serialization: shared memory, ports, transferred buffers.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { KINDS, until, withPool } from './pools.mjs';

describe('a pool of threads', () => {
  it('shares memory in messages and in replies', async () => {
    await withPool({ kind: 'thread' }, async (pool) => {
      const shared = new SharedArrayBuffer(8);
      const back = await pool.run(shared, { type: 'fillsShared', transfer: [] });
      assert.equal(new Int32Array(shared)[0], 42);
      assert.ok(back instanceof SharedArrayBuffer);
      new Int32Array(back)[1] = 7;
      assert.equal(new Int32Array(shared)[1], 7);
    });
  });

  it('has its workers speak through ports', async () => {
    await withPool({ kind: 'thread' }, async (pool) => {
      const { port1, port2 } = new MessageChannel();
      let heard;
      port1.onmessage = ({ data }) => (heard = data);
      assert.equal(await pool.run({ port: port2 }, { type: 'speaks', transfer: [port2] }), 'spoken');
      assert.equal(await until(() => heard), 'through the port');
      port1.close();
      const { port } = await pool.run(null, { type: 'opens' });
      let told;
      port.onmessage = ({ data }) => (told = data);
      assert.equal(await until(() => told), 'from the handler');
      port.close();
    });
  });

  it('moves buffers both ways, at once and from the queue', async () => {
    await withPool({ kind: 'thread' }, async (pool) => {
      const all = Array.from({ length: 20 }, (_, index) => {
        const { buffer } = new Uint8Array(1_000_000).fill(index);
        const reply = pool.run({ buffer, index }, { type: 'echo', transfer: [buffer] });
        assert.equal(buffer.byteLength, 0);
        return reply;
      });
      for (const [index, { buffer, index: told }] of (await Promise.all(all)).entries()) {
        assert.ok(told === index && buffer.byteLength === 1_000_000 && new Uint8Array(buffer).every((byte) => byte === index));
      }
      for (const type of ['moves', 'movesLater']) {
        const replies = await Promise.all(Array.from({ length: 50 }, (_, index) => pool.run(index * 1_000, { type })));
        for (const [index, { buffer, length }] of replies.entries()) assert.ok(length === index * 1_000 && new Uint8Array(buffer).every((byte) => byte === 9) && buffer.byteLength === length);
      }
    });
  });

  it('refuses what cannot be transferred, and leaves buffers alone that it does not accept', async () => {
    await withPool({ kind: 'thread', queueMax: 0 }, async (pool) => {
      await pool.ready;
      const { buffer } = new Uint8Array(3);
      const { port2 } = new MessageChannel();
      for (const [message, transfer] of [[() => 1, []], [{ buffer, call: () => 1 }, [buffer]], [buffer, [buffer, buffer]], [{}, [{}]], [{ port2 }, []]]) {
        await assert.rejects(pool.run(message, { type: 'echo', transfer }), { code: 'not_sendable' });
      }
      port2.close();
      const busy = pool.run(30, { type: 'busy' });
      await assert.rejects(pool.run(buffer, { type: 'echo', transfer: [buffer] }), { code: 'queue_full' });
      assert.equal(buffer.byteLength, 3);
      await busy;
      await assert.rejects(pool.run(null, { type: 'movesWrong' }), { code: 'handler_error' });
      assert.deepEqual(await pool.run(1, { type: 'echo' }), 1);
    });
  });

  it('runs a message never again whose buffers are gone, and one that is only shared as often as it may', async () => {
    await withPool({ kind: 'thread', retry: { attempts: 3 } }, async (pool) => {
      const { buffer } = new Uint8Array(3);
      await assert.rejects(pool.run(buffer, { type: 'exitsWith', transfer: [buffer] }), { code: 'crashed' });
      assert.equal(pool.stats().counts.retried, 0);
      await assert.rejects(pool.run(new SharedArrayBuffer(3), { type: 'exitsWith', transfer: [] }), { code: 'crashed' });
      assert.equal(pool.stats().counts.retried, 2);
    });
  });

  it('loses none of them among quick ones, when workers come and go', async () => {
    await withPool({ kind: 'thread', size: { min: 2, max: 2 } }, async (pool) => {
      await Promise.all(Array.from({ length: 500 }, () => pool.run(1, { type: 'echo' })));
      const all = [];
      for (let index = 0; index < 300; index++) {
        const { buffer } = new Uint8Array([index]);
        all.push(pool.run({ buffer, index }, { type: 'echo', transfer: [buffer] }).then((reply) => assert.deepEqual([new Uint8Array(reply.buffer)[0], reply.index], [index & 255, index])));
        for (let other = 0; other < 5; other++) all.push(pool.run(other, { type: 'echo' }));
        if (index % 100 === 50) pool.resize({ min: 1 + (index % 3), max: 3 });
        if (index % 50 === 0) await all.at(-1);
      }
      await Promise.all(all);
    });
  });
});

for (const kind of KINDS) {
  it(`a reply that is moved is the same in a pool of the kind ${kind}`, async () => {
    await withPool({ kind }, async (pool) => {
      const { buffer, length } = await pool.run(5, { type: 'moves' });
      assert.deepEqual([new Uint8Array(buffer), length], [new Uint8Array(5).fill(9), 5]);
    });
  });
}
