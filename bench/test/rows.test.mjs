import assert from 'node:assert/strict';
import test from 'node:test';
import { atLeast, atMost, ratioRow, row } from '../rows.mjs';

const run = (requests_per_s, flags = [], elsewhere_share = 0) => ({ requests_per_s, flags, elsewhere_share });

test('the median is judged against the bar, and an interval across it is not sure', () => {
  assert.equal(row({ what: 'x', bar: atMost(0.9), samples: [0.8, 0.85, 0.82] }).verdict, 'PASS');
  assert.equal(row({ what: 'x', bar: atMost(0.9), samples: [0.95, 0.91, 0.92] }).verdict, 'MISS');
  const near = row({ what: 'x', bar: atLeast(0.9), samples: [0.5, 0.91, 0.92] });
  assert.deepEqual([near.verdict, near.sure], ['PASS', false]);
});

test('a value on the bar passes, in both directions', () => {
  assert.equal(row({ what: 'x', bar: atMost(2), samples: [2] }).verdict, 'PASS');
  assert.equal(row({ what: 'x', bar: atLeast(2), samples: [2] }).verdict, 'PASS');
});

test('a pair with a flagged run on either side is left out, and too many make the row invalid', () => {
  const pairs = Array.from({ length: 8 }, () => ({ a: run(2), b: run(1) }));
  const flagged = [{ a: run(900, ['1 status errors']), b: run(1) }, { a: run(900), b: run(1, ['1 read errors']) }];
  const kept = ratioRow({ pairs: [...pairs, ...flagged] }, 'requests_per_s', { what: 'x', bar: atMost(3) });
  assert.deepEqual([kept.value, kept.high, kept.verdict, kept.samples.length, kept.of], [2, 2, 'PASS', 8, 10]);
  const few = ratioRow({ pairs: [...pairs.slice(0, 6), ...flagged] }, 'requests_per_s', { what: 'x', bar: atMost(3) });
  assert.deepEqual([few.value, few.verdict], [null, 'INVALID']);
});

test('a sample that is no number never becomes a figure', () => {
  assert.throws(() => row({ what: 'x', samples: [1, Number.NaN] }), /"x" has the sample NaN/);
});

test('a row says when others used the machine during one of its runs', () => {
  const pairs = [{ a: run(2), b: run(1) }, { a: run(2), b: run(1, [], 0.3) }];
  assert.deepEqual(ratioRow({ pairs }, 'requests_per_s', { what: 'x', notes: ['goal 1'] }).notes, ['goal 1', '(machine not quiet)']);
  assert.deepEqual(ratioRow({ pairs: pairs.slice(0, 1) }, 'requests_per_s', { what: 'x' }).notes, []);
});
