import assert from 'node:assert/strict';
import test from 'node:test';
import { ladderFigures } from '../report.mjs';
import { accounts, answered, pairRungs } from '../rungs.mjs';

const METRICS = `# TYPE forebay_requests_total counter
forebay_requests_total{route="/e1/*",class="2xx"} 31
forebay_requests_total{route="/e1/*",class="5xx"} 0
forebay_requests_total{route="/local",class="2xx"} 21
forebay_request_duration_seconds_count{route="/local"} 21
`;

const RUNGS = [
  { name: 'memory', route: '/local', path: '/local' },
  { name: 'script', route: '/e1/*', path: '/e1/Article/1' },
];

const run = (sent, { right = sent, flags = [], ...metrics } = {}) => ({ sent, right, flags, ...metrics });

test('the server counts answers by route and class', () => {
  assert.deepEqual(answered(METRICS), { '/e1/*': { '2xx': 31, '5xx': 0 }, '/local': { '2xx': 21 } });
});

test('accounts are even when each request was answered once and right', () => {
  const runs = { kept: { memory: run(10), script: run(10) }, closed: { memory: run(10), script: run(20) } };
  assert.deepEqual(accounts([{ runs, counted: answered(METRICS) }], RUNGS), { sent: 50, lost: 0, extra: 0 });
});

test('a wrong answer is lost, and an answer that nobody has seen is extra', () => {
  const runs = { kept: { memory: run(10), script: run(10, { right: 7 }) }, closed: { memory: run(10), script: run(18) } };
  assert.deepEqual(accounts([{ runs, counted: answered(METRICS) }], RUNGS), { sent: 48, lost: 3, extra: 2 });
});

test('figures are medians of clean runs, and pairs are of one round', () => {
  const at = (server_us_per_request, flags) => run(1, { server_us_per_request, flags });
  const rounds = [at(4), at(6), at(900, ['no requests'])].map((memory) => ({ runs: { kept: { memory, script: at(8) } } }));
  const [memory] = ladderFigures({ rungs: RUNGS, rounds });
  assert.deepEqual([memory.mode, memory.clean.server_us, memory.clean.runs, memory.of], ['kept', 5, 2, 3]);
  const { pairs } = pairRungs(rounds, 'kept', 'script', 'memory');
  assert.deepEqual(pairs.map(({ a, b }) => [a.server_us_per_request, b.server_us_per_request]), [[8, 4], [8, 6], [8, 900]]);
});
