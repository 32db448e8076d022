// Statistics of the benchmark: small, exact where possible, and without hidden randomness.

/** The median of `values` (the mean of the two middle ones if their number is even). */
export function median(values) {
  return quantile(values, 0.5);
}

/**
 * The `q` quantile (0 to 1) of `values`, with linear interpolation (type 7 of Hyndman and Fan).
 * Throws on an empty list: a figure without samples must not reach a report.
 */
export function quantile(values, q) {
  if (values.length === 0) throw new RangeError('quantile of no values');
  const sorted = Float64Array.from(values).sort();
  const place = (sorted.length - 1) * q;
  const below = Math.floor(place);
  const above = Math.ceil(place);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
}

/**
 * A percentile of latencies: the smallest sample that at least the share `q` of all samples does not exceed (nearest rank),
 * so that a printed latency was really measured.
 */
export function percentile(samples, q) {
  if (samples.length === 0) throw new RangeError('percentile of no samples');
  const sorted = Float64Array.from(samples).sort();
  return sorted[Math.max(0, Math.ceil(sorted.length * q) - 1)];
}

/**
 * Confidence interval of the median by the percentile bootstrap: `resamples` samples of the same size are drawn with replacement, and
 * the interval contains the middle `confidence` of their medians. The seed is fixed: the same values yield the same interval.
 * With fewer than about 8 values it is too narrow; with 3 it is hardly more than their range.
 */
export function medianInterval(values, { confidence = 0.95, resamples = 10_000, seed = 1 } = {}) {
  const random = generator(seed);
  const medians = new Float64Array(resamples);
  const drawn = new Float64Array(values.length);
  for (let round = 0; round < resamples; round += 1) {
    for (let i = 0; i < drawn.length; i += 1) drawn[i] = values[Math.floor(random() * values.length)];
    medians[round] = median(drawn);
  }
  const tail = (1 - confidence) / 2;
  return { low: quantile(medians, tail), high: quantile(medians, 1 - tail) };
}

/** Pseudo-random numbers in [0, 1) from a 32-bit seed (mulberry32, public domain). */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
