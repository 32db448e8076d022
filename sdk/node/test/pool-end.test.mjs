// How pools end, and how programs with a pool end.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { Pool } from '../dist/pool/index.js';
import { FILE, HANDLERS, IS_BUN, KINDS, folder, isAlive, until, withPool } from './pools.mjs';

for (const kind of KINDS) {
  describe(`a pool of the kind ${kind} that ends`, () => {
    it('finishes what it has accepted when it closes, and takes no more', async () => {
      await withPool({ kind, size: { min: 1, max: 2 } }, async (pool) => {
        const all = Array.from({ length: 40 }, (_, index) => pool.run(index % 10, { type: 'waits' }));
        const closed = pool.close();
        assert.equal(pool.close(), closed);
        await assert.rejects(pool.run(1, { type: 'echo' }), { code: 'closed' });
        await assert.rejects(pool.reload(), { code: 'closed' });
        assert.throws(() => pool.resize({ max: 3 }), { code: 'closed' });
        assert.equal((await Promise.all(all)).length, 40);
        await closed;
      });
    });

    it('runs again what crashes while it closes', async (test) => {
      const file = join(folder(test), 'handler.mjs');
      const once = join(folder(test), 'once');
      writeFileSync(file, `import { existsSync, writeFileSync } from 'node:fs';
        export default () => { if (existsSync(${JSON.stringify(once)})) return 'second'; writeFileSync(${JSON.stringify(once)}, ''); process.exit(1); };`);
      await withPool({ kind, handlers: { it: file }, retry: { attempts: 2 } }, async (pool) => {
        const reply = pool.run(1);
        await pool.close();
        assert.equal(await reply, 'second');
      });
    });

    it('rejects what waits when it closes without finishing it', async () => {
      await withPool({ kind }, async (pool) => {
        await pool.ready;
        const running = pool.run(50, { type: 'waits' });
        await until(() => pool.stats().workers[0].inFlight === 1);
        const waiting = pool.run(1, { type: 'echo' });
        const closed = pool.close({ drain: false });
        await assert.rejects(waiting, { code: 'closed' });
        assert.equal(await running, 50);
        await closed;
      });
    });

    it('waits no longer than the deadline when it closes', async () => {
      await withPool({ kind, killGrace: 50 }, async (pool) => {
        const [never, blocks] = [pool.run({}, { type: 'blocks' }), pool.run({}, { type: 'never' })];
        const began = performance.now();
        await Promise.all([pool.close({ deadline: 100 }), assert.rejects(never, { code: 'closed' }), assert.rejects(blocks, { code: 'closed' })]);
        assert.ok(performance.now() - began < 3_000);
      });
    });

    it('closes and is destroyed while it starts, twice and at once', async () => {
      for (const end of [(pool) => pool.close(), (pool) => pool.destroy(), (pool) => Promise.all([pool.close(), pool.destroy(), pool.destroy()]), (pool) => pool[Symbol.asyncDispose]()]) {
        await withPool({ kind, size: { min: 2, max: 2 } }, async (pool) => {
          const ready = pool.ready.catch((error) => error.code);
          await end(pool);
          assert.equal(await ready, 'closed');
        });
      }
    });

    it('rejects everything when it is destroyed', async () => {
      await withPool({ kind }, async (pool) => {
        await pool.ready;
        const all = ['blocks', 'echo', 'echo'].map((type) => pool.run({}, { type }));
        await until(() => pool.stats().workers[0].inFlight > 0);
        const destroyed = pool.destroy();
        for (const promise of all) await assert.rejects(promise, { code: 'closed', message: /destroyed/ });
        await destroyed;
        assert.equal(pool.stats().workers.length, 0);
      });
    });

    it('runs stop hooks', async (test) => {
      const file = join(folder(test), 'stops');
      const options = { kind, start: new URL('handlers/pool-start.mjs', import.meta.url), env: { ...process.env, POOL_STOPS: file }, size: { min: 2, max: 2 } };
      await withPool(options, async (pool) => {
        await until(() => pool.stats().workers.every(({ phase }) => phase === 'ready'));
        await pool.close();
        assert.deepEqual(readFileSync(file, 'utf8').trim().split('\n').sort(), ['1', '2']);
      });
    });

    it('goes on when a listener throws, and that is seen', { skip: IS_BUN && 'its tests take errors that nobody catches' }, async () => {
      const caught = [];
      const listeners = process.listeners('uncaughtException');
      process.removeAllListeners('uncaughtException');
      process.on('uncaughtException', (error) => caught.push(error.message));
      try {
        await withPool({ kind }, async (pool) => {
          pool.on('workerReady', () => {
            throw new Error('mine');
          });
          pool.on('idle', () => {
            throw new Error('mine, too');
          });
          for (let index = 0; index < 3; index++) assert.equal(await pool.run(index, { type: 'echo' }), index);
        });
      } finally {
        process.removeAllListeners('uncaughtException');
        for (const listener of listeners) process.on('uncaughtException', listener);
      }
      assert.deepEqual(caught.sort(), ['mine', 'mine, too', 'mine, too', 'mine, too']);
    });

    it('keeps a program alive as long as a message is open, and no longer', async (test) => {
      const program = join(folder(test), 'program.mjs');
      writeFileSync(program, `
        import { Pool } from ${JSON.stringify(new URL('../dist/pool/index.js', import.meta.url).href)};
        const file = ${JSON.stringify(FILE)};
        const pool = new Pool({ kind: '${kind}', handlers: { waits: { file, export: 'waits' }, never: { file, export: 'never' } }, size: { min: 2, max: 2 } });
        await pool.ready;
        console.log(JSON.stringify(pool.stats().workers.map(({ pid }) => pid)));
        pool.run({}, { type: 'never', signal: AbortSignal.timeout(50) }).catch((error) => console.log(error.code));
        pool.run(300, { type: 'waits' }).then((reply) => console.log(reply));
      `);
      const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
      let printed = '';
      child.stdout.on('data', (text) => (printed += text));
      const code = await new Promise((resolve) => child.once('close', resolve));
      const [pids, ...rest] = printed.trim().split('\n');
      assert.deepEqual([code, rest], [0, ['aborted', '300']]);
      await until(() => JSON.parse(pids).every((pid) => pid === null || !isAlive(pid)), 'its workers end');
    });
  });
}

it('a pool does not wait for a thread that cannot be ended', async (test) => {
  const file = join(folder(test), 'begun');
  const pool = new Pool({ kind: 'thread', handlers: HANDLERS, size: { min: 1, max: 1 }, killGrace: 10 });
  const stuck = pool.run({ file }, { type: 'inNativeCode' });
  await until(() => existsSync(file));
  const began = performance.now();
  await Promise.all([pool.close({ deadline: 10 }), assert.rejects(stuck, { code: 'closed' })]);
  assert.ok(performance.now() - began < 5_000);
  await until(() => pool.stats().workers.length === 0, 'it ends when its native code does');
});

it('a pool is disposed of at the end of its block', async () => {
  const pool = new Pool({ handlers: HANDLERS, size: { min: 1, max: 1 } });
  assert.equal(await pool.run(1, { type: 'echo' }), 1);
  await pool[Symbol.asyncDispose]();
  assert.equal(pool.stats().workers.length, 0);
});
