/** The delay between two blocks of messages, as QOper8's benchmark adapts it. */

const STEP_MS = 1;

/** What a look at the queue changed. */
export type Change = 'increased' | 'reduced' | 'none';

/**
 * Waits a step longer whenever the queue is longer than it ever was, and a step less whenever it is empty. Two things are not as in
 * QOper8: the delay never falls below 0, and an empty queue halves the length that counts as the longest, so that one slow moment at
 * the start does not keep the delay from growing for the rest of a run.
 */
export class AdaptiveDelay {
  #delay_ms: number;
  #longest = 0;

  constructor(delay_ms: number) {
    this.#delay_ms = Math.max(0, delay_ms);
  }

  /** Milliseconds until the next block. */
  get delay_ms(): number {
    return this.#delay_ms;
  }

  /** To be called before each block with the number of messages that wait. */
  observe(queueLength: number): Change {
    if (queueLength > this.#longest) {
      this.#longest = queueLength;
      this.#delay_ms += STEP_MS;
      return 'increased';
    }
    if (queueLength > 0) return 'none';
    this.#longest = Math.floor(this.#longest / 2);
    this.#delay_ms = Math.max(0, this.#delay_ms - STEP_MS);
    return 'reduced';
  }
}
