import assert from 'node:assert/strict';
import test from 'node:test';
import { parseStat, rss_bytes, treeCpu_us } from '../proc.mjs';
import { launch, stop } from '../processes.mjs';

test('a command name with spaces and parentheses does not shift the fields', () => {
  const fields = Array.from({ length: 49 }, (_, i) => String(i + 4)); // fields 4 to 52 of proc(5), each with its own number as value
  const entry = parseStat(`77 (a) (b c) S ${fields.join(' ')}\n`);
  assert.equal(entry.pid, 77);
  assert.equal(entry.parent, 4);
  assert.equal(entry.started, '22');
  assert.equal(entry.cpu_us, (14 + 15 + 16 + 17) * 10_000);
  assert.equal(entry.own_us, (14 + 15) * 10_000);
});

const BURN = 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done';

/** CPU time of a process tree, read once its script has printed `burnt`, in microseconds. */
async function cpuOf(script) {
  const process_ = launch('burner', 'sh', ['-c', script]);
  try {
    await process_.waitForOutput(/burnt/, 20_000);
    return treeCpu_us(process_.pid);
  } finally {
    await stop(process_);
  }
}

test('CPU of a living grandchild counts', async () => {
  const grandchild = `sh -c '${BURN}; echo burnt; sleep 600' & wait`;
  const used_us = await cpuOf(`sh -c "${grandchild.replaceAll('$', '\\$')}" & wait`);
  assert.ok(used_us > 100_000, `${used_us} us`);
});

test('CPU of a child that ended and was waited for counts', async () => {
  const used_us = await cpuOf(`sh -c '${BURN}' & wait; echo burnt; sleep 600`);
  assert.ok(used_us > 100_000, `${used_us} us`);
});

// `stop` resolves only when no process holds the output pipe any more, so a surviving descendant shows as a timeout.
test('stopping ends what the process started, also in a session of its own', { timeout: 10_000 }, async () => {
  const process_ = launch('parent', 'sh', ['-c', 'setsid sleep 600 & echo started; wait']);
  await process_.waitForOutput(/started/, 5000);
  await stop(process_);
  assert.equal(process_.end.signal, 'SIGTERM');
});

test('stopping ends what a process that is already gone left behind', { timeout: 10_000 }, async () => {
  const process_ = launch('crasher', 'sh', ['-c', 'sleep 600 & exit 3']);
  assert.equal((await process_.exited).code, 3);
  await stop(process_);
});

test('a process that ends before it is ready is an error that shows what it printed', async () => {
  const process_ = launch('broken', 'sh', ['-c', 'echo no such thing >&2; exit 4']);
  await assert.rejects(process_.waitForOutput(/ready/, 5000), /broken ended before it was ready \(exit code 4\).*\n?.*no such thing/s);
});

test('resident memory is that of the process', () => {
  const bytes = rss_bytes(process.pid);
  assert.ok(Math.abs(bytes - process.memoryUsage.rss()) < 0.2 * bytes);
});
