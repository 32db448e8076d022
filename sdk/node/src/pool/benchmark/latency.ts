/** Times of many messages in little memory: a histogram whose buckets are as wide as 1/128 of what they hold. */

/** Times are counted in units of 0.1 microseconds: finer than the clock of any runtime. */
const UNITS_PER_MS = 10_000;
/** Below so many units each has a bucket of its own; above, each power of two has as many buckets. */
const EXACT = 256;
const PER_DOUBLING = EXACT / 2;
const UNITS_MAX = 0x7fff_ffff;

export class LatencyHistogram {
  readonly #counts = new Float64Array(PER_DOUBLING * 26);
  #count = 0;
  #sum_ms = 0;
  #max_ms = 0;

  /** Counts a time; one that the clock makes negative is 0. */
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

  /** The upper end of the bucket that holds the time which the share `q` of all times does not exceed; 0 without times. */
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

/** The first number of units that lies behind the bucket. */
function endOf(bucket: number): number {
  if (bucket < EXACT) return bucket + 1;
  const shift = Math.floor(bucket / PER_DOUBLING) - 1;
  return (bucket - shift * PER_DOUBLING + 1) * 2 ** shift;
}
