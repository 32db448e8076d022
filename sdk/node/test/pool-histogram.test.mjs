// Histograms of pools, compared with exact results.
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { Histogram } from '../dist/pool/histogram.js';

const PARTS = { p50: 0.5, p75: 0.75, p90: 0.9, p99: 0.99, p99_9: 0.999, p99_99: 0.9999, p99_999: 0.99999 };

const DISTRIBUTIONS = {
  'one value': () => Array(1_000).fill(1_234),
  'ten values': () => [...Array(10).keys()],
  'small ones': () => Array.from({ length: 5_000 }, (_, index) => index % 64),
  'powers of two and their neighbours': () => Array.from({ length: 96 }, (_, index) => 2 ** Math.floor(index / 3) + (index % 3) - 1),
  'a long tail': () => Array.from({ length: 200_000 }, (_, index) => Math.floor(50 / (1 - ((index * 0.618_034) % 1) + 1e-7))),
  'the longest': () => [0, 1, 4_294_967_295, 4_294_967_295],
};

for (const [name, make] of Object.entries(DISTRIBUTIONS)) {
  it(`quantiles of ${name} are right to a thirty-second part`, () => {
    const histogram = new Histogram();
    const values = make();
    for (const value of values) histogram.add(value);
    const sorted = Float64Array.from(values).sort();
    const summary = histogram.summary();
    assert.deepEqual([summary.count, summary.min, summary.max], [values.length, sorted[0] / 1000, sorted.at(-1) / 1000]);
    assert.ok(Math.abs(summary.mean - values.reduce((sum, value) => sum + value, 0) / values.length / 1000) < 1e-6);
    for (const [key, part] of Object.entries(PARTS)) {
      const exact = sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] / 1000;
      assert.ok(summary[key] >= exact && summary[key] <= exact * (1 + 1 / 32) + 1e-9, `${key}: ${summary[key]}, exactly ${exact}`);
    }
    histogram.reset();
    assert.deepEqual(histogram.summary(), { count: 0, mean: 0, min: 0, max: 0, p50: 0, p75: 0, p90: 0, p99: 0, p99_9: 0, p99_99: 0, p99_999: 0 });
  });
}

it('what is longer than 71 minutes counts as that, and what is negative as nothing', () => {
  const histogram = new Histogram();
  histogram.add(1e15);
  histogram.add(-5);
  const { min, max } = histogram.summary();
  assert.deepEqual([min, max], [0, 4_294_967.295]);
});
