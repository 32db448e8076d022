import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lacking, memoryGrowth } from '../generatorlimits.mjs';

test('what the machine lacks for many connections is said with the figure that it needs', () => {
  assert.equal(lacking(10_000, { files: 20_000, ports: 28_232 }), null);
  assert.match(lacking(10_000, { files: 4_096, ports: 28_232 }), /ulimit -n 10100, the hard limit is 4096/);
  assert.match(lacking(40_000, { files: Number.POSITIVE_INFINITY, ports: 28_232 }), /ip_local_port_range has 28232/);
});

test('memory at the end is compared with that after half of the requests, however much came before', () => {
  const look = (made, now) => ({ made, memory: { now } });
  assert.equal(memoryGrowth([look(0, 1), look(400, 10), look(501, 20), look(900, 20), look(1_000, 22)], 1_000), 1.1);
  assert.equal(memoryGrowth([look(0, 1), look(499, 10)], 1_000), null);
  assert.equal(memoryGrowth([], 1_000), null);
});
