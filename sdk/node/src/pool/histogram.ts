/** A histogram of durations with a relative error of at most 1/32. */

/** Each power of two is divided into 2^SUB_BITS buckets. */
const SUB_BITS = 5;
const SUB = 1 << SUB_BITS;
/** Longest duration recorded exactly, in microseconds: 71 minutes. Longer ones count as this. */
const MICROS_MAX = 0xffff_ffff;
const BUCKETS = (33 - SUB_BITS) * SUB;

/** Summary of a {@link Histogram}, in milliseconds. */
export interface HistogramSummary {
  readonly count: number;
  readonly mean: number;
  readonly min: number;
  readonly max: number;
  readonly p50: number;
  readonly p75: number;
  readonly p90: number;
  readonly p99: number;
  readonly p99_9: number;
  readonly p99_99: number;
  readonly p99_999: number;
}

export class Histogram {
  readonly #counts = new Float64Array(BUCKETS);
  #count = 0;
  #sum = 0;
  #min = Infinity;
  #max = 0;

  /** Adds a duration in microseconds. */
  add(micros: number): void {
    const value = micros > MICROS_MAX ? MICROS_MAX : micros > 0 ? micros : 0;
    this.#counts[bucketOf(value)]!++;
    this.#count++;
    this.#sum += value;
    if (value < this.#min) this.#min = value;
    if (value > this.#max) this.#max = value;
  }

  /** The quantile `part` (0 to 1) in microseconds; 0 if the histogram is empty. */
  quantile(part: number): number {
    if (this.#count === 0) return 0;
    const rank = Math.max(1, Math.ceil(part * this.#count));
    let seen = 0;
    for (let bucket = 0; bucket < BUCKETS; bucket++) {
      seen += this.#counts[bucket]!;
      if (seen >= rank) return Math.max(this.#min, Math.min(this.#max, topOf(bucket)));
    }
    return this.#max;
  }

  summary(): HistogramSummary {
    const at = (part: number) => this.quantile(part) / 1000;
    return {
      count: this.#count,
      mean: this.#count === 0 ? 0 : this.#sum / this.#count / 1000,
      min: this.#count === 0 ? 0 : this.#min / 1000,
      max: this.#max / 1000,
      p50: at(0.5),
      p75: at(0.75),
      p90: at(0.9),
      p99: at(0.99),
      p99_9: at(0.999),
      p99_99: at(0.9999),
      p99_999: at(0.99999),
    };
  }

  reset(): void {
    this.#counts.fill(0);
    this.#count = 0;
    this.#sum = 0;
    this.#min = Infinity;
    this.#max = 0;
  }
}

/** Values below 2 * SUB have a bucket each; above that, every power of two has SUB buckets. */
function bucketOf(micros: number): number {
  const value = micros >>> 0;
  const shift = Math.max(0, 31 - Math.clz32(value | 1) - SUB_BITS);
  return shift * SUB + (value >>> shift);
}

/** The largest value of a bucket. */
function topOf(bucket: number): number {
  if (bucket < 2 * SUB) return bucket;
  const shift = Math.floor(bucket / SUB) - 1;
  const low = (bucket - shift * SUB) * 2 ** shift;
  return low + 2 ** shift - 1;
}
