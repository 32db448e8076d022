// Messages that outlive the program that sent them.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { readFileSync, writeFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { DurableQueue } from '../dist/pool/durable.js';
import { open } from '../dist/store/index.js';
import { FILE, IS_BUN, KINDS, folder, until, withPool } from './pools.mjs';

async function withQueue(pool, options, use) {
  const queue = new DurableQueue(pool, options);
  try {
    return await use(queue);
  } finally {
    await queue.close();
  }
}

describe('a durable queue', () => {
  it('runs each message and gives its reply', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    for (const kind of KINDS) {
      await withPool({ kind }, (pool) => withQueue(pool, { store, name: kind }, async (queue) => {
        const messages = [1, { a: 'x' }, new Map([[1, 2n]]), undefined, new Uint8Array([1, 2])];
        const all = await Promise.all(messages.map((message) => queue.enqueue(message, { type: 'echo', deadline: { queue: Infinity } })));
        assert.deepEqual(all.map(({ id }) => id), [1, 2, 3, 4, 5]);
        assert.deepEqual(await Promise.all(all.map(({ reply }) => reply)), messages);
        await until(() => queue.size === 0);
        assert.equal(store.node('ForebayQueue', kind, 'open').exists, false);
      }));
    }
    store.close();
  });

  it('keeps the messages of one turn in one commit', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    await withPool({}, (pool) => withQueue(pool, { store }, async (queue) => {
      const before = store.stats().lastCommit;
      const all = Array.from({ length: 500 }, (_, index) => queue.enqueue(index, { type: 'echo' }));
      await Promise.all(all);
      assert.equal(store.stats().lastCommit, before + 1);
      assert.equal((await Promise.all(all.map(async (each) => (await each).reply))).length, 500);
    }));
    store.close();
  });

  it('keeps a message that fails until it is retried or dropped', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    await withPool({ retry: { attempts: 2 } }, (pool) => withQueue(pool, { store }, async (queue) => {
      const events = [];
      queue.on('deadLetter', (id, { code }) => events.push([id, code]));
      const { id, reply } = await queue.enqueue({ code: 5 }, { type: 'exits' });
      await assert.rejects(reply, { code: 'crashed' });
      const other = await queue.enqueue('no', { type: 'rejects' });
      await assert.rejects(other.reply, { code: 'handler_error' });
      await until(() => queue.size === 0);
      assert.deepEqual(events, [[1, 'crashed'], [2, 'handler_error']]);
      assert.deepEqual([...queue.deadLetters()].map(({ id: dead, type, message, error }) => [dead, type, message, error.code]), [
        [1, 'exits', { code: 5 }, 'crashed'],
        [2, 'rejects', 'no', 'handler_error'],
      ]);
      const again = await queue.retryDeadLetter(other.id);
      assert.equal(again.id, 3);
      await assert.rejects(again.reply, { message: 'no' });
      await until(() => queue.size === 0);
      assert.equal(queue.dropDeadLetter(id), true);
      assert.equal(queue.dropDeadLetter(id), false);
      assert.deepEqual([...queue.deadLetters()].map(({ id: dead }) => dead), [3]);
      await assert.rejects(queue.retryDeadLetter(1), RangeError);
    }));
    store.close();
  });

  it('has one message for one key, also after it was answered', async (test) => {
    const path = folder(test);
    const store = open(path, { durability: 'relaxed' });
    await withPool({}, async (pool) => {
      await withQueue(pool, { store }, async (queue) => {
        const [first, second] = await Promise.all([queue.enqueue(1, { type: 'echo', key: 'k' }), queue.enqueue(2, { type: 'echo', key: 'k' })]);
        assert.deepEqual([first.id, second.id, await first.reply, await second.reply], [1, 1, 1, 1]);
        await until(() => queue.size === 0);
        const third = await queue.enqueue(3, { type: 'echo', key: 'k' });
        assert.deepEqual([third.id, third.reply], [1, null]);
        assert.equal((await queue.enqueue(3, { type: 'echo', key: 'other' })).id, 2);
      });
      await withQueue(pool, { store }, async (queue) => assert.equal((await queue.enqueue(3, { type: 'echo', key: 'k' })).id, 1));
      assert.ok(store.node('ForebayQueue', 'queue', 'keys', 'k').expires > new Date());
    });
    store.close();
  });

  it('refuses what it cannot keep, and keeps what comes with it', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    await withPool({}, (pool) => withQueue(pool, { store, max: 20 }, async (queue) => {
      const good = queue.enqueue('good', { type: 'echo' });
      const bad = [
        [() => 1, { type: 'echo' }, { code: 'not_sendable' }],
        ['x'.repeat(33_600_000), { type: 'echo' }, { code: 'not_sendable', message: /at most 33554432/ }],
        [1, { type: 'nothing' }, { code: 'unknown_type' }],
        [1, { type: 'echo', key: '' }, TypeError],
        [1, { type: 'echo', key: '\ud800' }, TypeError],
        [1, { type: 'echo', priority: 0.5 }, RangeError],
      ];
      for (const [message, options, error] of bad) await assert.rejects(queue.enqueue(message, options), error);
      assert.equal(await (await good).reply, 'good');
      const many = await Promise.allSettled(Array.from({ length: 30 }, () => queue.enqueue(1, { type: 'echo' })));
      const refused = many.filter(({ status }) => status === 'rejected');
      assert.ok(refused.length >= 9 && refused.every(({ reason }) => reason.code === 'queue_full'), String(refused.length));
    }));
    assert.throws(() => new DurableQueue({}, { store, max: 0 }), RangeError);
    store.close();
  });

  it('gives the pool no more than that takes, and loses nothing over it', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    await withPool({ queueMax: 10 }, (pool) => withQueue(pool, { store }, async (queue) => {
      const all = await Promise.all(Array.from({ length: 300 }, (_, index) => queue.enqueue(index, { type: 'echo' })));
      assert.deepEqual(await Promise.all(all.map(({ reply }) => reply)), [...Array(300).keys()]);
    }));
    store.close();
  });

  it('waits for workers that do not start', async (test) => {
    const path = folder(test);
    const start = join(path, 'start.mjs');
    writeFileSync(start, "throw new Error('not yet');");
    const store = open(join(path, 'store'), { durability: 'relaxed' });
    await withPool({ start }, (pool) => withQueue(pool, { store }, async (queue) => {
      const { reply } = await queue.enqueue(1, { type: 'echo' });
      await until(() => pool.stats().counts.dropped + pool.stats().counts.refused > 1);
      writeFileSync(start, '');
      let value;
      reply.then((given) => (value = given));
      assert.equal(await until(() => value), 1);
    }));
    store.close();
  });

  it('leaves to the next program what it has not run, and that runs it in its order', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    await withPool({}, async (pool) => {
      const queue = new DurableQueue(pool, { store });
      const all = await Promise.all(Array.from({ length: 50 }, (_, index) => queue.enqueue(index, { type: 'waits' })));
      await queue.close();
      await assert.rejects(queue.enqueue(1, { type: 'echo' }), { code: 'closed' });
      const left = (await Promise.allSettled(all.map(({ reply }) => reply))).filter(({ reason }) => reason?.code === 'closed');
      await withQueue(pool, { store }, async (next) => {
        assert.equal(next.size, left.length);
        const ids = [];
        next.on('answered', (id) => ids.push(id));
        await until(() => next.size === 0);
        assert.deepEqual(ids, [...ids].sort((a, b) => a - b));
        assert.equal(ids.length, left.length);
      });
    });
    store.close();
  });

  it('loses no message that it has acknowledged when its program is killed', { skip: IS_BUN && 'its programs are those of Node' }, async (test) => {
    const path = folder(test);
    const done = join(path, 'done');
    const handler = join(path, 'handler.mjs');
    writeFileSync(handler, `import { appendFileSync } from 'node:fs'; export default ({ number }) => { appendFileSync(${JSON.stringify(done)}, number + '\\n'); return number; };`);
    const dist = new URL('../dist/pool/', import.meta.url).href;
    const program = join(path, 'program.mjs');
    writeFileSync(program, `
      import { Pool } from '${dist}index.js';
      import { DurableQueue } from '${dist}durable.js';
      const pool = new Pool({ handlers: { it: ${JSON.stringify(handler)} }, size: { min: 1, max: 1 } });
      const queue = new DurableQueue(pool, { store: ${JSON.stringify(join(path, 'store'))} });
      const from = Number(process.argv[2]);
      if (from < 0) {
        const timer = setInterval(async () => {
          if (queue.size > 0) return;
          clearInterval(timer);
          await queue.close();
          await pool.close();
        }, 5);
      } else {
        for (let number = from; ; number += 20) {
          const all = Array.from({ length: 20 }, (_, index) => queue.enqueue({ number: number + index }));
          await Promise.all(all);
          process.stdout.write(Array.from(all, (_, index) => number + index).join('\\n') + '\\n');
        }
      }
    `);
    const acknowledged = new Set();
    const start = (from) => spawn(process.execPath, [program, String(from)], { stdio: ['ignore', 'pipe', 'inherit'] });
    for (let round = 0; round < 3; round++) {
      const child = start(round * 1_000_000);
      let printed = '';
      child.stdout.on('data', (text) => (printed += text));
      await until(() => printed.length > 2_000);
      child.kill('SIGKILL');
      await new Promise((resolve) => child.once('close', resolve));
      for (const line of printed.split('\n').slice(0, -1)) acknowledged.add(line);
    }
    const last = start(-1);
    assert.equal(await new Promise((resolve) => last.once('close', resolve)), 0);
    const run = new Set(readFileSync(done, 'utf8').split('\n'));
    for (const number of acknowledged) assert.ok(run.has(number), `message ${number} was acknowledged and is lost`);
    assert.ok(acknowledged.size > 100);
  });

  it('makes a dead letter of what has ended its program too often', { skip: IS_BUN && 'its programs are those of Node' }, async (test) => {
    const path = folder(test);
    const store = join(path, 'store');
    const dist = new URL('../dist/pool/', import.meta.url).href;
    const program = join(path, 'program.mjs');
    writeFileSync(program, `
      import { Pool } from '${dist}index.js';
      import { DurableQueue } from '${dist}durable.js';
      const pool = new Pool({ handlers: { it: { file: ${JSON.stringify(FILE)}, export: 'waits' } } });
      const queue = new DurableQueue(pool, { store: ${JSON.stringify(store)}, lives: 2 });
      queue.on('deadLetter', (id, { code, message }) => console.log(id, code, message));
      if (process.argv[2] === 'first') {
        await queue.enqueue(1_000_000, { type: 'it' });
        console.log('kept');
      } else if (queue.size > 0) console.log('left');
      setInterval(() => {}, 1000);
    `);
    const lines = [];
    for (const name of ['first', 'second', 'third']) {
      const child = spawn(process.execPath, [program, name], { stdio: ['ignore', 'pipe', 'inherit'] });
      let printed = '';
      child.stdout.on('data', (text) => (printed += text));
      // The count of its lives is stored before it runs.
      await until(() => printed.split('\n').length > (name === 'third' ? 2 : 1));
      if (name === 'second') await until(() => {
        const opened = open(store);
        const lives = opened.get('ForebayQueue', 'queue', 'open', 1, 'lives');
        opened.close();
        return lives === 2;
      });
      child.kill('SIGKILL');
      await new Promise((resolve) => child.once('close', resolve));
      lines.push(printed.trim());
    }
    assert.deepEqual(lines, ['kept', 'left', 'left\n1 lives 2 programs ended while they had the message (lives 2)']);
  });

  it('belongs to one program at a time', { skip: IS_BUN && 'its programs are those of Node' }, async (test) => {
    const path = folder(test);
    const program = join(path, 'program.mjs');
    writeFileSync(program, `
      import { Pool } from '${new URL('../dist/pool/index.js', import.meta.url).href}';
      import { DurableQueue } from '${new URL('../dist/pool/durable.js', import.meta.url).href}';
      const pool = new Pool({ handlers: { it: '/nowhere.mjs' }, size: { min: 0, max: 1 } });
      try {
        new DurableQueue(pool, { store: ${JSON.stringify(join(path, 'store'))} });
        console.log('got it');
      } catch (error) {
        console.log(error.message);
      }
    `);
    const other = async () => {
      const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
      let printed = '';
      child.stdout.on('data', (text) => (printed += text));
      await new Promise((resolve) => child.once('close', resolve));
      return printed;
    };
    const store = open(join(path, 'store'));
    await withPool({}, async (pool) => {
      await withQueue(pool, { store }, async () => assert.match(await other(), /another program has the queue "queue" of /));
      assert.equal(await other(), 'got it\n');
    });
    store.close();
  });
});
