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
});

test('CPU of a grandchild counts, while it lives and after it was waited for', async () => {
  const burn = 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done';
  const process_ = launch('burner', 'sh', ['-c', `sh -c '${burn}; echo burnt; read x' & sh -c '${burn}'; echo waited; wait`]);
  try {
    await process_.waitForOutput(/burnt[^]*waited|waited[^]*burnt/, 20_000);
    const used_us = treeCpu_us(process_.pid);
    assert.ok(used_us > 100_000, `${used_us} us`);
  } finally {
    await stop(process_);
  }
});

test('stopping ends what the process started, also in a session of its own', async () => {
  const process_ = launch('parent', 'sh', ['-c', 'sleep 600 & setsid sleep 600 & echo started; wait']);
  await process_.waitForOutput(/started/, 5000);
  await stop(process_);
  // `stop` resolves only when nobody holds the output pipe any more: neither of the sleepers is left.
  assert.equal(process_.end.signal, 'SIGTERM');
});

test('resident memory is that of the process', () => {
  const bytes = rss_bytes(process.pid);
  assert.ok(Math.abs(bytes - process.memoryUsage.rss()) < 0.2 * bytes);
});
