/** The delay between two blocks of messages, adapted as in QOper8's benchmark. */

const STEP_MS = 1;

/** How an observation of the queue changed the delay. */
export type Change = 'increased' | 'reduced' | 'none';

/**
 * Grows by one step whenever the queue is longer than ever before, and shrinks by one step whenever it is empty. Two things differ from
 * QOper8: the delay never falls below 0, and an empty queue halves the record length, so that one slow moment at the start does not
 * keep the delay from growing for the rest of the run.
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

  /** Call it before each block with the number of waiting messages. */
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
