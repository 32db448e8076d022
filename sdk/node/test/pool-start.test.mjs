// Pools whose workers do not start.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { KINDS, folder, until, withPool } from './pools.mjs';

for (const kind of KINDS) {
  describe(`workers that do not start, in a pool of the kind ${kind}`, () => {
    const broken = {
      'a start module that is missing': ['/nowhere/start.mjs', /start\.mjs/],
      'a start module with a syntax error': ['export function onStart( {', /./],
      'a start hook that throws': ["export function onStart() { throw new Error('no database'); }", /no database/],
      'a start hook that rejects': ["export async function onStart() { throw new Error('no database yet'); }", /no database yet/],
      'a start hook that exits': ["export function onStart() { console.error('giving up'); process.exit(9); }", kind === 'process' ? /exit code 9, giving up/ : /exit code 9/],
    };
    for (const [what, [source, message]] of Object.entries(broken)) {
      it(`refuse messages with the cause: ${what}`, async (test) => {
        const file = join(folder(test), 'start.mjs');
        if (!source.startsWith('/')) writeFileSync(file, source);
        await withPool({ kind, start: source.startsWith('/') ? source : file }, async (pool) => {
          const failures = [];
          pool.on('startFailed', (error) => failures.push(error.code));
          await assert.rejects(pool.ready, { code: 'start_failed', message });
          await assert.rejects(pool.run(1, { type: 'echo' }), { code: 'start_failed', message });
          assert.ok(failures.length >= 1);
        });
      });
    }

    it('start again, and later and later, until the file is mended', async (test) => {
      const file = join(folder(test), 'start.mjs');
      writeFileSync(file, "throw new Error('not yet');");
      await withPool({ kind, start: file }, async (pool) => {
        let starts = 1;
        const made = performance.now();
        pool.on('workerStart', () => starts++);
        await assert.rejects(pool.run(1, { type: 'echo' }), { code: 'start_failed', message: /not yet/ });
        await until(() => starts === 4);
        // Delays of 100, 200 and 400 milliseconds.
        assert.ok(performance.now() - made > 690);
        const began = performance.now();
        writeFileSync(file, '');
        await until(() => pool.run('mended', { type: 'echo' }).catch(() => false));
        assert.ok(performance.now() - began < 5_000);
        assert.ok(starts < 8, String(starts));
      });
    });

    it('are given up after startMax', async (test) => {
      const file = join(folder(test), 'start.mjs');
      writeFileSync(file, 'export const onStart = () => new Promise((resolve) => setTimeout(resolve, 1_000_000));');
      await withPool({ kind, start: file, startMax: 700 }, async (pool) => {
        await assert.rejects(pool.run(1, { type: 'echo' }), { code: 'start_failed', message: /not ready within startMax \(700 ms\)/ });
      });
    });

    it('back off when they end by themselves as soon as they are ready', async (test) => {
      const file = join(folder(test), 'start.mjs');
      writeFileSync(file, 'export const onStart = () => void setTimeout(() => process.exit(5), 5);');
      await withPool({ kind, start: file }, async (pool) => {
        const ends = [];
        pool.on('workerStop', () => ends.push(performance.now()));
        await until(() => ends.length === 4);
        // Delays of 100, 200 and 400 milliseconds.
        assert.ok(ends[3] - ends[0] > 600, String(ends[3] - ends[0]));
      });
    });

    it('leave alone those that are there, and what they run', async (test) => {
      const file = join(folder(test), 'start.mjs');
      writeFileSync(file, '');
      await withPool({ kind, start: file, size: { min: 1, max: 2 } }, async (pool) => {
        await pool.ready;
        writeFileSync(file, "throw new Error('not any more');");
        const replies = await Promise.all([pool.run(100, { type: 'waits' }), pool.run(60, { type: 'waits' }), pool.run(3, { type: 'echo' })]);
        assert.deepEqual(replies, [100, 60, 3]);
      });
    });
  });
}

it('processes refuse messages with the cause when their program is not there', async () => {
  await withPool({ runtime: '/nowhere/runtime' }, async (pool) => {
    await assert.rejects(pool.run(1, { type: 'echo' }), { code: 'start_failed', message: /\/nowhere\/runtime|ENOENT/ });
  });
});
