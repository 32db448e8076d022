/** A histogram of latencies in little memory, with buckets as wide as 1/128 of their values. */

/** Times are counted in units of 0.1 microseconds, finer than the clock of any runtime. */
const UNITS_PER_MS = 10_000;
/** Values below EXACT units have a bucket each; above that, each power of two has PER_DOUBLING buckets. */
const EXACT = 256;
const PER_DOUBLING = EXACT / 2;
const UNITS_MAX = 0x7fff_ffff;

export class LatencyHistogram {
  readonly #counts = new Float64Array(PER_DOUBLING * 26);
  #count = 0;
  #sum_ms = 0;
  #max_ms = 0;

  /** Adds a time; a negative one, caused by the clock, counts as 0. */
  record(time_ms: number): void {
    this.#count += 1;
    this.#sum_ms += time_ms;
    if (time_ms > this.#max_ms) this.#max_ms = time_ms;
    const units = Math.max(0, Math.min(time_ms * UNITS_PER_MS, UNITS_MAX)) | 0;
    const bucket = units < EXACT ? units : bucketOf(units);
    this.#counts[bucket]! += 1;
  }

  get count(): number {
    return this.#count;
  }

  get mean_us(): number {
    return this.#count === 0 ? 0 : (this.#sum_ms * 1000) / this.#count;
  }

  get max_us(): number {
    return this.#max_ms * 1000;
  }

  /** The quantile `q`, as the upper end of its bucket; 0 if the histogram is empty. */
  percentile_us(q: number): number {
    let left = Math.max(1, Math.ceil(this.#count * q));
    for (let bucket = 0; bucket < this.#counts.length; bucket += 1) {
      left -= this.#counts[bucket]!;
      if (left <= 0) return Math.min((endOf(bucket) * 1000) / UNITS_PER_MS, this.max_us);
    }
    return 0;
  }
}

function bucketOf(units: number): number {
  const shift = 24 - Math.clz32(units);
  return shift * PER_DOUBLING + (units >> shift);
}

/** The exclusive upper end of a bucket, in units. */
function endOf(bucket: number): number {
  if (bucket < EXACT) return bucket + 1;
  const shift = Math.floor(bucket / PER_DOUBLING) - 1;
  return (bucket - shift * PER_DOUBLING + 1) * 2 ** shift;
}
