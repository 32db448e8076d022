import assert from 'node:assert/strict';
import { test } from 'node:test';
import { lacking } from '../generatorlimits.mjs';

test('what the machine lacks for many connections is said with the figure that it needs', () => {
  assert.equal(lacking(10_000, { files: 20_000, ports: 28_232 }), null);
  assert.match(lacking(10_000, { files: 4_096, ports: 28_232 }), /ulimit -n 10100, the hard limit is 4096/);
  assert.match(lacking(40_000, { files: Number.POSITIVE_INFINITY, ports: 28_232 }), /ip_local_port_range has 28232/);
});
