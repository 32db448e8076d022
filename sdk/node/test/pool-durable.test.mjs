// Messages that outlive the program that sent them.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { join } from 'node:path';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
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
        const ids = all.map(({ id }) => id);
        assert.ok(ids.every((id) => /^[0-9a-f]{32}$/.test(id)), ids.join());
        assert.deepEqual([...new Set(ids)].sort(), ids);
        assert.deepEqual(await Promise.all(all.map(({ reply }) => reply)), messages);
        await until(() => queue.size === 0);
        assert.deepEqual(['due', 'running'].map((part) => store.node('%jobs', part, kind).exists), [false, false]);
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

  it('runs a message that fails again, and keeps it as a dead letter until it is retried or dropped', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    await withPool({ retry: { attempts: 5, after: ['error'] } }, (pool) => withQueue(pool, { store, attempts: 2, backoff: 1 }, async (queue) => {
      const events = [];
      queue.on('deadLetter', (id, { code }) => events.push([id, code]));
      const first = await queue.enqueue({ code: 5 }, { type: 'exits' });
      await assert.rejects(first.reply, { code: 'crashed' });
      // The number of the message goes before that of the queue, and that of the pool does not count.
      const second = await queue.enqueue('no', { type: 'rejects', attempts: 3 });
      await assert.rejects(second.reply, { code: 'handler_error', message: 'no' });
      assert.deepEqual([pool.stats().counts.failed, pool.stats().counts.retried], [3, 0]);
      assert.deepEqual(events, [[first.id, 'crashed'], [second.id, 'handler_error']]);
      const dead = [...queue.deadLetters()];
      assert.deepEqual(dead.map(({ id, type, message, error }) => [id, type, message, error.code]), [
        [second.id, 'rejects', 'no', 'handler_error'],
        [first.id, 'exits', { code: 5 }, 'crashed'],
      ]);
      assert.ok(dead[0].error.message === 'no' && dead[0].at <= new Date());
      const again = await queue.retryDeadLetter(second.id);
      assert.equal(again.id, second.id);
      await assert.rejects(again.reply, { message: 'no' });
      assert.equal(queue.dropDeadLetter(first.id), true);
      assert.equal(queue.dropDeadLetter(first.id), false);
      assert.deepEqual([...queue.deadLetters()].map(({ id }) => id), [second.id]);
      await assert.rejects(queue.retryDeadLetter(first.id), RangeError);
      assert.equal(queue.size, 0);
    }));
    store.close();
  });

  it('does not repeat what the handler says is wrong', async (test) => {
    const path = folder(test);
    const handler = join(path, 'handler.mjs');
    writeFileSync(handler, "export default { fetch: () => new Response('wrong', { status: 422 }) };");
    await withPool({ handlers: undefined, handler }, (pool) => withQueue(pool, { store: join(path, 'store') }, async (queue) => {
      const { reply } = await queue.enqueue(1, { type: 'any' });
      await assert.rejects(reply, { code: 'handler_error', status: 422 });
      assert.equal([...queue.deadLetters()].length, 1);
    }));
  });

  it('has one message for one key, also after it was answered and in the next program, for as long as it is kept', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    await withPool({}, async (pool) => {
      const same = (queue) => queue.enqueue({ n: 1 }, { type: 'echo', key: 'k' });
      let id;
      await withQueue(pool, { store }, async (queue) => {
        const [first, second] = await Promise.all([same(queue), same(queue)]);
        id = first.id;
        assert.deepEqual([second.id, await first.reply, await second.reply], [id, { n: 1 }, { n: 1 }]);
        const third = await same(queue);
        assert.deepEqual([third.id, await third.reply], [id, { n: 1 }]);
        for (const [message, type] of [[{ n: 2 }, 'echo'], [{ n: 1 }, 'echoLater']]) {
          await assert.rejects(queue.enqueue(message, { type, key: 'k' }), { code: 'key_reused', message: /the same type and content/ });
        }
        const long = await queue.enqueue('x'.repeat(2_000_000), { type: 'echo', key: 'long' });
        assert.equal((await long.reply).length, 2_000_000);
        assert.equal((await queue.enqueue('x'.repeat(2_000_000), { type: 'echo', key: 'long' })).reply, null);
        const failed = await queue.enqueue('no', { type: 'rejects', key: 'failed', attempts: 1 });
        await assert.rejects(failed.reply);
        await assert.rejects((await queue.enqueue('no', { type: 'rejects', key: 'failed' })).reply, { code: 'handler_error', message: 'no' });
      });
      await withQueue(pool, { store, kept: 0 }, async (queue) => {
        const known = await same(queue);
        assert.deepEqual([known.id, await known.reply], [id, { n: 1 }]);
        const brief = await queue.enqueue(1, { type: 'echo', key: 'brief' });
        await brief.reply;
        assert.notEqual((await queue.enqueue(1, { type: 'echo', key: 'brief' })).id, brief.id);
      });
    });
    store.close();
  });

  it('runs nothing before its time, and keeps the program alive for it', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    await withPool({}, (pool) => withQueue(pool, { store }, async (queue) => {
      const begin = Date.now();
      const later = await queue.enqueue('later', { type: 'echo', delay: 300 });
      const soon = await queue.enqueue('soon', { type: 'echo' });
      const answered = [];
      queue.on('answered', (_, reply) => answered.push([reply, Date.now()]));
      await Promise.all([soon.reply, later.reply]);
      assert.deepEqual(answered.map(([reply]) => reply), ['soon', 'later']);
      assert.ok(answered[1][1] - begin >= 300);
    }));
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
        [1, { type: 'echo', delay: -1 }, RangeError],
        [1, { type: 'echo', attempts: 0 }, RangeError],
      ];
      for (const [message, options, error] of bad) await assert.rejects(queue.enqueue(message, options), error);
      assert.equal(await (await good).reply, 'good');
      const many = await Promise.allSettled(Array.from({ length: 30 }, () => queue.enqueue(1, { type: 'echo' })));
      const refused = many.filter(({ status }) => status === 'rejected');
      assert.ok(refused.length >= 9 && refused.every(({ reason }) => reason.code === 'queue_full'), String(refused.length));
    }));
    for (const options of [{ max: 0 }, { attempts: 0.5 }, { backoff: -1 }, { kept: Infinity }]) assert.throws(() => new DurableQueue({}, { store, ...options }), RangeError);
    for (const name of ['', 'POST /tasks', 'x'.repeat(129)]) assert.throws(() => new DurableQueue({}, { store, name }), { code: 'key' });
    store.set('ForebayQueue', 'old', 'open', 1, {});
    assert.throws(() => new DurableQueue({}, { store, name: 'old' }), /earlier version of forebay\/pool.*forebay store kill 'ForebayQueue\/old' --yes/);
    store.close();
  });

  it('gives the pool no more than that takes, and loses nothing over it', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    for (const [queueMax, count] of [[10, 300], [0, 3]]) {
      await withPool({ queueMax, credit: 0 }, (pool) => withQueue(pool, { store }, async (queue) => {
        const all = await Promise.all(Array.from({ length: count }, (_, index) => queue.enqueue(index, { type: 'echo' })));
        assert.deepEqual(await Promise.all(all.map(({ reply }) => reply)), [...Array(count).keys()]);
      }));
    }
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
    await withPool({ queueMax: 10 }, async (pool) => {
      const queue = new DurableQueue(pool, { store });
      const all = await Promise.all(Array.from({ length: 50 }, (_, index) => queue.enqueue(index, { type: 'waits' })));
      await queue.close();
      assert.equal(store.node('%jobs', 'running', 'queue').exists, false);
      await assert.rejects(queue.enqueue(1, { type: 'echo' }), { code: 'closed' });
      const left = (await Promise.allSettled(all.map(({ reply }) => reply))).filter(({ reason }) => reason?.code === 'closed');
      await withQueue(pool, { store }, async (next) => {
        assert.ok(left.length > 20, String(left.length));
        assert.equal(next.size, left.length);
        const ids = [];
        next.on('answered', (id) => ids.push(id));
        await until(() => next.size === 0);
        assert.deepEqual(ids, [...ids].sort());
        assert.equal(ids.length, left.length);
      });
    });
    store.close();
  });

  it('keeps what its pool was closed for, and begins nothing more', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    await withPool({}, (pool) => withQueue(pool, { store }, async (queue) => {
      const { id } = await queue.enqueue(1_000_000, { type: 'waits' });
      await until(() => pool.stats().open === 1);
      await pool.close({ deadline: 0 });
      const state = () => ['state', 'attempts'].map((member) => store.get('%jobs', 'job', id, 'meta', member));
      await until(() => state()[0] === 'waiting');
      await queue.enqueue(1, { type: 'echo' });
      const { lastCommit } = store.stats();
      for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate);
      assert.deepEqual([store.stats().lastCommit, queue.size, state()], [lastCommit, 2, ['waiting', 0]]);
    }));
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

  it('loses nothing and ends nothing twice, in whichever state its program is killed', { skip: IS_BUN && 'its programs are those of Node' }, async (test) => {
    const path = folder(test);
    const handler = join(path, 'handler.mjs');
    writeFileSync(handler, `
      import { appendFileSync, existsSync } from 'node:fs';
      export default async ({ name, fails, gate }) => {
        appendFileSync(${JSON.stringify(join(path, 'begun'))}, name + '\\n');
        while (gate && !existsSync(${JSON.stringify(join(path, 'gate'))})) await new Promise((resolve) => setTimeout(resolve, 2));
        if (fails && !existsSync(${JSON.stringify(join(path, 'mended'))})) throw new Error('not yet');
        return name;
      };
    `);
    const program = join(path, 'program.mjs');
    writeFileSync(program, `
      import { Pool } from '${new URL('../dist/pool/index.js', import.meta.url).href}';
      import { DurableQueue } from '${new URL('../dist/pool/durable.js', import.meta.url).href}';
      const pool = new Pool({ handlers: { it: ${JSON.stringify(handler)} }, size: { min: 1, max: 1 }, concurrency: 8 });
      const queue = new DurableQueue(pool, { store: ${JSON.stringify(join(path, 'store'))}, backoff: 3_600_000 });
      queue.on('answered', (_, reply) => console.log('answered', reply));
      queue.on('deadLetter', (_, { message }) => console.log('dead', message));
      if (process.argv[2] === 'first') {
        for (const [name, options, rest] of [
          ['done', {}], ['failed', { attempts: 1 }, { fails: true }], ['retrying', {}, { fails: true }], ['waiting', { delay: 3_600_000 }], ['running', {}, { gate: true }],
        ]) await queue.enqueue({ name, ...rest }, { key: name, ...options });
      }
      setInterval(() => {}, 1_000);
    `);
    const lines = [];
    const start = (name) => {
      const child = spawn(process.execPath, [program, name], { stdio: ['ignore', 'pipe', 'inherit'] });
      test.after(() => child.kill('SIGKILL'));
      child.stdout.on('data', (text) => lines.push(...text.toString().trim().split('\n')));
      return child;
    };
    const end = async (child) => {
      child.kill('SIGKILL');
      await new Promise((resolve) => child.once('close', resolve));
    };
    const store = open(join(path, 'store'));
    const states = () => Object.fromEntries([...store.node('%jobs', 'job').entries()].map(([id, job]) => [store.get('%jobs', 'job', id, 'meta', 'key'), job.meta.state]));
    const first = start('first');
    const expected = { done: 'done', failed: 'failed', retrying: 'retrying', waiting: 'waiting', running: 'running' };
    await until(() => lines.length === 2 && existsSync(join(path, 'begun')) && readFileSync(join(path, 'begun'), 'utf8').includes('running') && JSON.stringify(states()) === JSON.stringify(expected));
    await end(first);
    assert.deepEqual(lines.splice(0), ['answered done', 'dead not yet']);
    writeFileSync(join(path, 'gate'), '');
    writeFileSync(join(path, 'mended'), '');
    const second = start('second');
    // What was running runs again at once; what waits or failed does so when it is told to.
    await until(() => lines.length === 1);
    assert.deepEqual(lines.splice(0), ['answered running']);
    assert.deepEqual(states(), { ...expected, running: 'done' });
    await end(second);
    await withPool({ handlers: { it: handler } }, (pool) => withQueue(pool, { store }, async (queue) => {
      const [{ id }] = [...queue.deadLetters()];
      assert.equal(await (await queue.retryDeadLetter(id)).reply, 'failed');
      assert.equal(queue.size, 2);
    }));
    const begun = readFileSync(join(path, 'begun'), 'utf8').trim().split('\n').sort();
    assert.deepEqual(begun, ['done', 'failed', 'failed', 'retrying', 'running', 'running']);
    store.close();
  });

  it('makes a dead letter of what has ended its program ten times', { skip: IS_BUN && 'its programs are those of Node' }, async (test) => {
    const path = folder(test);
    const program = join(path, 'program.mjs');
    writeFileSync(program, `
      import { Pool } from '${new URL('../dist/pool/index.js', import.meta.url).href}';
      import { DurableQueue } from '${new URL('../dist/pool/durable.js', import.meta.url).href}';
      const pool = new Pool({ handlers: { it: { source: 'await new Promise(() => {})' } }, kind: 'thread' });
      const queue = new DurableQueue(pool, { store: ${JSON.stringify(join(path, 'store'))} });
      queue.on('deadLetter', (id, { code, message }) => {
        console.log(code, message);
        process.exit();
      });
      if (queue.size === 0 && process.argv[2] === '1') await queue.enqueue('it', { key: 'it' });
      setInterval(() => {}, 1000);
    `);
    const store = open(join(path, 'store'));
    const running = () => [...store.node('%jobs', 'job').entries()].find(([, job]) => job.meta.state === 'running')?.[1].meta;
    for (let number = 1; number <= 10; number++) {
      const child = spawn(process.execPath, [program, String(number)], { stdio: 'inherit' });
      test.after(() => child.kill('SIGKILL'));
      await until(() => running()?.attempts === number);
      child.kill('SIGKILL');
      await new Promise((resolve) => child.once('close', resolve));
    }
    const child = spawn(process.execPath, [program, '11'], { stdio: ['ignore', 'pipe', 'inherit'] });
    test.after(() => child.kill('SIGKILL'));
    let printed = '';
    child.stdout.on('data', (text) => (printed += text));
    await new Promise((resolve) => child.once('close', resolve));
    assert.match(printed, /^interrupted the process that ran the job ended 10 times, /);
    store.close();
  });

  it('ends when another program has taken its queue over', async (test) => {
    const store = open(folder(test), { durability: 'relaxed' });
    await withPool({ concurrency: 2 }, async (pool) => {
      const queue = new DurableQueue(pool, { store });
      const errors = [];
      queue.on('error', (error) => errors.push(error.code));
      const [{ reply }] = await Promise.all([50, 100].map((ms) => queue.enqueue(ms, { type: 'waits' })));
      // As if this program had been suspended for longer than its lock lasts in a database.
      store.set('%jobs', 'owner', 'queue', 'another');
      await assert.rejects(reply, { code: 'closed', message: /another program has taken over the queue "queue"/ });
      await assert.rejects(queue.enqueue(1, { type: 'echo' }), { code: 'closed' });
      await until(() => pool.stats().open === 0);
      for (let turn = 0; turn < 5; turn++) await new Promise(setImmediate);
      assert.deepEqual(errors, ['closed']);
      await queue.close();
      assert.equal(store.get('%jobs', 'queue', 'queue', 'running'), 2);
    });
    store.close();
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
      await withQueue(pool, { store }, async () => {
        assert.match(await other(), /another program has the queue "queue" of /);
        assert.throws(() => new DurableQueue(pool, { store }), /another program has the queue "queue" of /);
        await withQueue(pool, { store, name: 'other' }, async () => {});
      });
      assert.equal(await other(), 'got it\n');
    });
    store.close();
  });
});
