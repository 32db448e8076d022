import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { figures } from '../choose.mjs';
import { RUNGS } from '../suites/articles.mjs';

/** A result in which rung number N achieves 1,000 * (N + 1) requests/s. */
function result(amounts) {
  const run = (number) => ({
    requests_per_s: 1000 * (number + 1),
    p50_us: 1,
    p99_us: 2,
    server_us_per_request: number + 0.26,
    children_us_per_request: number < 4 ? 0 : 2,
    client_cores: 0.5,
    elsewhere_share: number / 100,
    flags: [],
  });
  const runs = Object.fromEntries(RUNGS.map(({ name }, number) => [name, run(number)]));
  const ladder = { rungs: RUNGS.map(({ name, path }) => ({ name, path })), rounds: [{ runs: { kept: runs, closed: runs } }] };
  const machine = { cpu: 'A processor', cores: 2, kernel: 'Linux 6.18 x86_64' };
  return { date: '2026-11-22T10:00:00.000Z', machine, amounts, suites: [{ name: 'ladder', ladder }] };
}

test("the guide's table has every route, in the order of the suite, beside a record by its reference", () => {
  const lines = figures(result({ pairs: 10, seconds: 4 })).split('\n');
  const rows = lines.filter((line) => line.startsWith('| `'));
  assert.equal(rows.length, RUNGS.length);
  assert.equal(rows[0], '| `respond`: memory | 0.3 |  | 1,000 | 0.25 | 0.3 | 1,000 |');
  assert.equal(rows[4], '| `script`, a read that `rest()` declares | 4.3 | 2.0 | 5,000 | 1.25 | 6.3 | 5,000 |');
  assert.match(lines[0], /^2026-11-22, A processor, 2 cores, Linux 6.18; 10 rounds of 4 s$/);
});

test('figures of a short run say so', () => {
  assert.match(figures(result({ pairs: 3, seconds: 2 })), /not to be quoted/);
  assert.doesNotMatch(figures(result({ pairs: 10, seconds: 4 })), /not to be quoted/);
});

test('the guide has a place for them', () => {
  const guide = readFileSync(new URL('../../docs/guide/choose.md', import.meta.url), 'utf8');
  assert.match(guide, /<!-- figures: .* -->\n[^]*<!-- end of figures -->/);
});
