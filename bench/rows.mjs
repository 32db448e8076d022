// Rows of the report: what was measured, what the issue asks for, and whether it holds.

import { median, medianInterval } from './stats.mjs';

const FLAGGED_SHARE_MAX = 0.2; // with a larger share of flagged runs, a row is INVALID instead of being judged by the rest

/** If others use more of the machine than this during a run, the report says so. */
export const ELSEWHERE_SHARE_MAX = 0.05;

/** A target that a value must not exceed. */
export const atMost = (limit) => ({ limit, text: `<= ${limit}`, holds: (value) => value <= limit });

/** A target that a value must reach. */
export const atLeast = (limit) => ({ limit, text: `>= ${limit}`, holds: (value) => value >= limit });

/**
 * Makes one row from the samples of clean runs. `of` is the number of runs, flagged ones included. Without `bar` the row is for
 * information only. `verdict` is PASS or MISS by the median; `sure` is false if the interval of the median contains the bar.
 */
export function row({ what, unit = '', bar = null, samples, of = samples.length, notes = [] }) {
  const broken = samples.find((sample) => !Number.isFinite(sample));
  if (broken !== undefined) throw new TypeError(`"${what}" has the sample ${broken}`);
  const base = { what, unit, bar: bar?.text ?? null, samples, of, notes };
  if (samples.length === 0 || samples.length < of * (1 - FLAGGED_SHARE_MAX)) {
    return { ...base, value: null, low: null, high: null, verdict: 'INVALID', sure: true };
  }
  const value = median(samples);
  const { low, high } = medianInterval(samples);
  const verdict = bar ? (bar.holds(value) ? 'PASS' : 'MISS') : '';
  const sure = !bar || bar.holds(low) === bar.holds(high);
  return { ...base, value, low, high, verdict, sure };
}

/**
 * Makes a row from the ratios a : b of `metric` over the clean pairs of a comparison (see pairs.mjs), with a note if others used the
 * machine
 * during one of them.
 */
export function ratioRow(comparison, metric, { what, bar, notes = [] }) {
  const clean = comparison.pairs.filter(({ a, b }) => a.flags.length === 0 && b.flags.length === 0);
  const disturbed = clean.some(({ a, b }) => Math.max(a.elsewhere_share, b.elsewhere_share) > ELSEWHERE_SHARE_MAX);
  return row({
    what,
    bar,
    notes: disturbed ? [...notes, '(machine not quiet)'] : notes,
    samples: clean.map(({ a, b }) => a[metric] / b[metric]),
    of: comparison.pairs.length,
  });
}
