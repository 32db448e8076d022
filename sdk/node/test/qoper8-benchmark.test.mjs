// QOper8's benchmark.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { benchmark } from '../dist/qoper8/benchmark.js';
import { HANDLERS, KINDS } from './qoper8s.mjs';

for (const kind of KINDS) {
  describe(`the benchmark of QOper8 with workers of kind ${kind}`, () => {
    it('prints the lines that QOper8 prints', async () => {
      const lines = [];
      const result = await benchmark({ kind, poolSize: 2, maxMessages: 2_000, blockLength: 500, delay: 5, print: (line) => lines.push(line) });
      assert.equal(result.messages, 2_000);
      assert.equal(result.errors, 0);
      assert.equal(result.workers.reduce((sum, handled) => sum + handled), 2_000);
      assert.deepEqual(lines.slice(0, 2), ['Block no: 1 (0): Queue exhausted', 'delay reduced to 4']);
      const at = lines.indexOf('Completed sending messages');
      assert.ok(at > 0);
      const [before, space, count, rate, ...handled] = lines.slice(at + 1);
      assert.deepEqual([before, space], ['===========================', ' ']);
      assert.match(count, /^2,000 messages: [\d.]+ sec$/);
      assert.match(rate, /^Processing rate: [\d,.]+ message\/sec$/);
      assert.deepEqual(handled.splice(-2), [' ', '===========================']);
      handled.forEach((line, worker) => assert.match(line, new RegExp(`^Child Process ${worker}: [\\d,]+ messages handled$`)));
      assert.equal(handled.length, 2);
      for (const line of lines.slice(0, at)) {
        assert.match(line, /^(Block no: \d \([\d,]+\): (Queue exhausted|queue length increased to [\d,]+)|delay (increased|reduced) to \d+)$/);
      }
    });

    it('sends messages of its own, backs the queue up, and counts errors', async () => {
      const queue = new Map();
      const seen = [];
      const result = await benchmark({
        kind,
        maxMessages: 50,
        blockLength: 50,
        delay: 1,
        message: { type: 'do', do: 'nothing-that-is-known', data: 1 },
        handlers: { do: { text: 'message.data === 1 ? finished({ error: "one" }) : finished({})' }, other: { module: 'qoper8.mjs', path: HANDLERS } },
        QBackup: {
          add: (id, message) => queue.set(id, message),
          delete: (id) => seen.push(queue.get(id)) && queue.delete(id),
        },
        print() {},
      });
      assert.deepEqual([result.errors, result.firstError], [50, 'one']);
      assert.equal(seen.length, 50);
      assert.deepEqual(seen[0], { type: 'do', do: 'nothing-that-is-known', data: 1 });
      assert.equal(queue.size, 0);
    });
  });
}

it('the benchmark of QOper8 says what is wrong with its options', async () => {
  await assert.rejects(benchmark({ maxMessages: 0 }), /maxMessages is a whole number of at least 1, not 0/);
});
