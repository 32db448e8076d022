import assert from 'node:assert/strict';
import test from 'node:test';
import { median, medianInterval, percentile, quantile } from '../stats.mjs';

test('the median is the middle value, or the mean of the two middle ones', () => {
  assert.equal(median([3, 1, 2]), 2);
  assert.equal(median([10, 1, 2, 3]), 2.5);
});

test('quantiles are linear between neighbours and sort numerically', () => {
  assert.equal(quantile([100, 9, 20], 0), 9);
  assert.equal(quantile([100, 9, 20], 1), 100);
  assert.equal(quantile([0, 10, 20, 30, 40], 0.1), 4);
});

test('a percentile is a sample by nearest rank', () => {
  const hundred = Array.from({ length: 100 }, (_, i) => i + 1);
  assert.equal(percentile(hundred, 0.99), 99);
  assert.equal(percentile(hundred, 0.5), 50);
  assert.equal(percentile(hundred, 1), 100);
  assert.equal(percentile([7], 0.99), 7);
});

test('no values give no figure', () => {
  assert.throws(() => median([]), RangeError);
  assert.throws(() => percentile([], 0.99), RangeError);
});

test('the interval is the same for the same values and stays within them', () => {
  const values = [0.81, 0.84, 0.85, 0.86, 0.86, 0.87, 0.88, 0.9, 0.91, 0.95];
  const interval = medianInterval(values);
  assert.deepEqual(interval, medianInterval(values));
  assert.ok(interval.low >= 0.81 && interval.low < median(values));
  assert.ok(interval.high <= 0.95 && interval.high > median(values));
});

test('equal values have an interval without width', () => {
  assert.deepEqual(medianInterval([2, 2, 2, 2]), { low: 2, high: 2 });
});

test('the interval holds the true median about as often as it says', () => {
  // 400 experiments of 10 values each, uniform around 1, from a fixed seed; the percentile bootstrap of a median is
  // known to come near its 95 % at this size.
  let state = 12345;
  const uniform = () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return state / 0x7fffffff;
  };
  let held = 0;
  for (let experiment = 0; experiment < 400; experiment += 1) {
    const values = Array.from({ length: 10 }, () => 0.5 + uniform());
    const { low, high } = medianInterval(values, { resamples: 1000, seed: experiment });
    if (low <= 1 && 1 <= high) held += 1;
  }
  assert.ok(held >= 360 && held <= 398, `held in ${held} of 400`);
});
