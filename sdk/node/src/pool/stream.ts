/** Streams of the parts of a reply. */
import { AbortedError } from './errors.js';

/** Maximum number of unread parts before the worker is asked to pause. */
const WAITING_MAX = 64;

/** Iterates over the parts; `result` is the reply. Leaving the loop aborts the message. */
export class PartStream<Reply = unknown> implements AsyncIterableIterator<unknown> {
  /** The reply; rejects as `run()` does. */
  result!: Promise<Reply>;
  #parts: unknown[] = [];
  #isOver = false;
  #failure: { readonly error: unknown } | null = null;
  #wake: (() => void)[] = [];
  #resumption: { readonly promise: Promise<void>; readonly resolve: () => void } | null = null;
  readonly #leave: () => void;

  /** @internal */
  constructor(leave: () => void) {
    this.#leave = leave;
  }

  /** @internal */
  readonly push = (part: unknown): void => {
    if (this.#isOver) return;
    this.#parts.push(part);
    this.#wakeAll();
  };

  /** @internal */
  readonly whenReadyForMore = (): Promise<void> | null => {
    if (this.#parts.length < WAITING_MAX || this.#isOver) return null;
    if (this.#resumption === null) {
      let resolve!: () => void;
      this.#resumption = { promise: new Promise((done) => (resolve = done)), resolve: () => resolve() };
    }
    return this.#resumption.promise;
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
    this.#wakeAll();
  }

  #wakeAll(): void {
    for (const wake of this.#wake.splice(0)) wake();
  }

  async next(): Promise<IteratorResult<unknown, undefined>> {
    for (;;) {
      if (this.#parts.length > 0) {
        const value = this.#parts.shift();
        if (this.#parts.length < WAITING_MAX / 2) this.#resume();
        return { done: false, value };
      }
      if (this.#failure !== null) {
        const { error } = this.#failure;
        this.#failure = null;
        throw error;
      }
      if (this.#isOver) return { done: true, value: undefined };
      await new Promise<void>((resolve) => this.#wake.push(resolve));
    }
  }

  async return(): Promise<IteratorResult<unknown, undefined>> {
    this.#parts = [];
    if (!this.#isOver) this.#leave();
    this.#resume();
    return { done: true, value: undefined };
  }

  #resume(): void {
    this.#resumption?.resolve();
    this.#resumption = null;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** The options that connect a message to an `onPart` callback. */
interface Listener {
  readonly onPart: (part: unknown) => void;
  readonly whenReadyForMore: () => Promise<void> | null;
  readonly signal: AbortSignal;
  /** Resolves to the reply once `onPart` has processed all parts; rejects if it failed. */
  readonly afterParts: <Reply>(result: Promise<Reply>) => Promise<Reply>;
}

/** Applies back-pressure through the promises that `onPart` returns. If it fails, the message is aborted. */
export function partListener(onPart: (part: unknown) => unknown, outer: AbortSignal | undefined): Listener {
  const controller = new AbortController();
  let processed: Promise<void> | null = null;
  let failure: { readonly error: unknown } | null = null;

  function fail(error: unknown): void {
    failure ??= { error };
    controller.abort(error);
  }

  return {
    onPart(part) {
      let result: unknown;
      try {
        result = onPart(part);
      } catch (error) {
        fail(error);
        return;
      }
      if (typeof (result as PromiseLike<unknown> | null | undefined)?.then !== 'function') return;
      const both: Promise<void> = Promise.all([processed, result]).then(() => {}, fail).finally(() => {
        if (processed === both) processed = null;
      });
      processed = both;
    },
    whenReadyForMore: () => processed,
    signal: outer === undefined ? controller.signal : AbortSignal.any([controller.signal, outer]),
    async afterParts(result) {
      const reply = await result;
      await processed;
      if (failure !== null) throw new AbortedError(failure.error);
      return reply;
    },
  };
}
