/** The parts of an answer, as they come. */

/** Parts that may wait before the worker is asked to pause. */
const WAITING_MAX = 64;

/** Iterate over it for the parts; `result` is the reply. Leaving the loop aborts the message. */
export class PartStream<Reply = unknown> implements AsyncIterableIterator<unknown> {
  /** The reply, or what the message was rejected with. */
  result!: Promise<Reply>;
  #parts: unknown[] = [];
  #isOver = false;
  #failure: { readonly error: unknown } | null = null;
  #wake: (() => void) | null = null;
  #goOn: { readonly promise: Promise<void>; readonly resolve: () => void } | null = null;
  readonly #leave: () => void;

  /** @internal */
  constructor(leave: () => void) {
    this.#leave = leave;
  }

  /** @internal */
  readonly push = (part: unknown): void => {
    if (this.#isOver) return;
    this.#parts.push(part);
    this.#wake?.();
  };

  /** @internal */
  readonly mayGoOn = (): Promise<void> | null => {
    if (this.#parts.length < WAITING_MAX || this.#isOver) return null;
    if (this.#goOn === null) {
      let resolve!: () => void;
      this.#goOn = { promise: new Promise((done) => (resolve = done)), resolve: () => resolve() };
    }
    return this.#goOn.promise;
  };

  /** @internal */
  follow(result: Promise<Reply>): void {
    this.result = result;
    result.then(
      () => this.#end(),
      (error: unknown) => {
        this.#failure = { error };
        this.#end();
      },
    );
  }

  #end(): void {
    this.#isOver = true;
    this.#wake?.();
  }

  async next(): Promise<IteratorResult<unknown, undefined>> {
    for (;;) {
      if (this.#parts.length > 0) {
        const value = this.#parts.shift();
        if (this.#parts.length < WAITING_MAX / 2) this.#resume();
        return { done: false, value };
      }
      if (this.#failure !== null) throw this.#failure.error;
      if (this.#isOver) return { done: true, value: undefined };
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = null;
    }
  }

  async return(): Promise<IteratorResult<unknown, undefined>> {
    this.#parts = [];
    if (!this.#isOver) this.#leave();
    this.#resume();
    return { done: true, value: undefined };
  }

  #resume(): void {
    this.#goOn?.resolve();
    this.#goOn = null;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
