// Shared helpers of the pool tests.
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Pool } from '../dist/pool/index.js';
import * as functions from './handlers/pool.mjs';

export const KINDS = ['process', 'thread'];
export const IS_BUN = process.versions.bun !== undefined;
export const FILE = fileURLToPath(new URL('handlers/pool.mjs', import.meta.url));
/** Every exported function of that file, by name. */
export const HANDLERS = Object.fromEntries(Object.keys(functions).map((name) => [name, { file: FILE, export: name }]));

/** Waits for a condition; tests use no other way of waiting. */
export async function until(condition, what = String(condition)) {
  const end = performance.now() + 20_000;
  for (let value; ; ) {
    if ((value = await condition())) return value;
    if (performance.now() > end) assert.fail(`waited for 20 seconds: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

export function folder(test) {
  const path = mkdtempSync(join(tmpdir(), 'forebay-pool-'));
  test.after(() => rmSync(path, { recursive: true, force: true }));
  return path;
}

/** Whether a process exists and is not a zombie. */
export function isAlive(pid) {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}

/**
 * Runs `use` with a pool, and checks at the end that every accepted message is accounted for, every promise settled, and no worker left.
 */
export async function withPool(options, use) {
  const pool = new Pool({ handlers: HANDLERS, size: { min: 1, max: 1 }, killGrace: 60, ...options });
  pool.on('stderr', () => {});
  const pids = new Set();
  pool.on('workerStart', ({ pid }) => pid !== null && pids.add(pid));
  const promises = { made: 0, settled: 0 };
  const { run } = pool;
  pool.run = function (...args) {
    promises.made++;
    const promise = run.apply(pool, args);
    promise.then(() => promises.settled++, () => promises.settled++);
    return promise;
  };
  let failure;
  try {
    await use(pool, promises);
  } catch (error) {
    failure = error;
  }
  if (failure !== undefined) {
    await pool.destroy();
    throw failure;
  }
  await pool.close({ deadline: 5_000 });
  await new Promise((resolve) => setImmediate(resolve));
  conserved(pool, promises);
  const { workers, queue, queueBytes } = pool.stats();
  assert.deepEqual({ workers: workers.length, queue, queueBytes }, { workers: 0, queue: 0, queueBytes: 0 });
  for (const pid of pids) assert.ok(!isAlive(pid), `worker ${pid} outlives its pool`);
}

/** Checks that no message is lost or counted twice. */
export function conserved(pool, promises) {
  const { counts, open } = pool.stats();
  const { accepted, answered, failed, crashed, overdue, aborted, dropped, refused } = counts;
  assert.equal(open, 0);
  assert.equal(accepted, answered + failed + crashed + overdue + aborted + dropped, JSON.stringify(counts));
  assert.equal(promises.settled, promises.made, 'promises that were never settled');
  assert.equal(accepted + refused, promises.made, JSON.stringify(counts));
}
