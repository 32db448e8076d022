/** Readable streams (Streams, section 4) with default readers. Byte streams are read like any other. */
import type { WritableStream } from './writable.js';

export interface Strategy {
  highWaterMark?: number;
  size?: (chunk: unknown) => number;
}

export class CountQueuingStrategy {
  readonly highWaterMark: number;

  constructor(init: { highWaterMark: number }) {
    this.highWaterMark = init.highWaterMark;
  }

  size(): number {
    return 1;
  }
}

export class ByteLengthQueuingStrategy {
  readonly highWaterMark: number;

  constructor(init: { highWaterMark: number }) {
    this.highWaterMark = init.highWaterMark;
  }

  size(chunk: { byteLength: number }): number {
    return chunk.byteLength;
  }
}

export interface Source {
  type?: 'bytes' | undefined;
  start?: (controller: Controller) => unknown;
  pull?: (controller: Controller) => unknown;
  cancel?: (reason: unknown) => unknown;
}

export interface Controller {
  readonly desiredSize: number | null;
  enqueue(chunk: unknown): void;
  close(): void;
  error(reason?: unknown): void;
}

export interface PipeOptions {
  preventAbort?: boolean;
  preventCancel?: boolean;
  preventClose?: boolean;
  signal?: AbortSignal;
}

export interface ReadResult {
  done: boolean;
  value: unknown;
}

interface PendingRead {
  resolve(result: ReadResult): void;
  reject(reason: unknown): void;
}

/** The state shared by a stream, its controller and its reader. */
class State {
  stage: 'readable' | 'closed' | 'errored' = 'readable';
  reason: unknown;
  reader: ReadableStreamDefaultReader | null = null;
  wasRead = false;
  readonly queue: { chunk: unknown; size: number }[] = [];
  queued = 0;
  isClosing = false;
  isPulling = false;
  pullsAgain = false;
  isStarted = false;
  readonly waiting: PendingRead[] = [];
  readonly closed: Promise<void>;
  readonly source: Source;
  readonly highWaterMark: number;
  readonly size: (chunk: unknown) => number;
  #settle!: { resolve: () => void; reject: (reason: unknown) => void };

  constructor(source: Source, highWaterMark: number, size: (chunk: unknown) => number) {
    this.source = source;
    this.highWaterMark = highWaterMark;
    this.size = size;
    this.closed = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
    this.closed.catch(() => {});
  }

  get desiredSize(): number | null {
    if (this.stage === 'errored') return null;
    return this.stage === 'closed' ? 0 : this.highWaterMark - this.queued;
  }

  enqueue(chunk: unknown): void {
    if (this.stage !== 'readable' || this.isClosing) throw new TypeError('Invalid state: the stream takes no more');
    const reader = this.waiting.shift();
    if (reader !== undefined) {
      reader.resolve({ done: false, value: chunk });
    } else {
      let size: number;
      try {
        size = Number(this.size(chunk));
        if (!(size >= 0) || size === Infinity) throw new RangeError(`${size} is no size of a chunk`);
      } catch (error) {
        this.fail(error);
        throw error;
      }
      this.queue.push({ chunk, size });
      this.queued += size;
    }
    this.pull();
  }

  close(): void {
    if (this.stage !== 'readable' || this.isClosing) throw new TypeError('Invalid state: the stream is closed already');
    this.isClosing = true;
    if (this.queue.length === 0) this.finish();
  }

  finish(): void {
    if (this.stage !== 'readable') return;
    this.stage = 'closed';
    for (const reader of this.waiting.splice(0)) reader.resolve({ done: true, value: undefined });
    this.#settle.resolve();
  }

  fail(reason: unknown): void {
    if (this.stage !== 'readable') return;
    this.stage = 'errored';
    this.reason = reason;
    this.queue.length = 0;
    this.queued = 0;
    for (const reader of this.waiting.splice(0)) reader.reject(reason);
    this.#settle.reject(reason);
  }

  pull(): void {
    if (!this.isStarted || this.stage !== 'readable' || this.isClosing) return;
    if (this.waiting.length === 0 && this.desiredSize! <= 0) return;
    if (this.isPulling) {
      this.pullsAgain = true;
      return;
    }
    if (this.source.pull === undefined) return;
    this.isPulling = true;
    const over = () => {
      this.isPulling = false;
      if (this.pullsAgain) {
        this.pullsAgain = false;
        this.pull();
      }
    };
    call(() => this.source.pull!(controllerOf(this))).then(over, (error: unknown) => this.fail(error));
  }

  read(): Promise<ReadResult> {
    this.wasRead = true;
    if (this.stage === 'errored') return Promise.reject(this.reason);
    const next = this.queue.shift();
    if (next !== undefined) {
      this.queued = Math.max(0, this.queued - next.size);
      if (this.isClosing && this.queue.length === 0) this.finish();
      else this.pull();
      return Promise.resolve({ done: false, value: next.chunk });
    }
    if (this.stage === 'closed') return Promise.resolve({ done: true, value: undefined });
    const promise = new Promise<ReadResult>((resolve, reject) => this.waiting.push({ resolve, reject }));
    this.pull();
    return promise;
  }

  async cancel(reason: unknown): Promise<void> {
    this.wasRead = true;
    if (this.stage === 'closed') return;
    if (this.stage === 'errored') throw this.reason;
    this.queue.length = 0;
    this.queued = 0;
    this.finish();
    await this.source.cancel?.(reason);
  }
}

/** Calls a function of the underlying source; an error it throws becomes a rejection. */
async function call(work: () => unknown): Promise<void> {
  await work();
}

const controllers = new WeakMap<State, Controller>();

function controllerOf(state: State): Controller {
  let controller = controllers.get(state);
  if (controller === undefined) {
    controller = {
      get desiredSize() {
        return state.desiredSize;
      },
      enqueue: (chunk) => state.enqueue(chunk),
      close: () => state.close(),
      error: (reason) => state.fail(reason),
    };
    controllers.set(state, controller);
  }
  return controller;
}

let stateOf: (stream: ReadableStream) => State;

export class ReadableStream {
  readonly #state: State;

  static {
    stateOf = (stream) => stream.#state;
  }

  constructor(source: Source = {}, strategy: Strategy = {}) {
    const mark = strategy.highWaterMark ?? (source.type === 'bytes' ? 0 : 1);
    if (Number.isNaN(Number(mark)) || mark < 0) throw new RangeError(`${mark} is no highWaterMark`);
    const state = new State(source, Number(mark), strategy.size ?? (() => 1));
    this.#state = state;
    const started = source.start?.(controllerOf(state));
    Promise.resolve(started).then(
      () => {
        state.isStarted = true;
        state.pull();
      },
      (error: unknown) => state.fail(error),
    );
  }

  /** A stream of the items of an iterable. */
  static from(items: Iterable<unknown> | AsyncIterable<unknown>): ReadableStream {
    const iterator =
      Symbol.asyncIterator in items ? items[Symbol.asyncIterator]() : (items as Iterable<unknown>)[Symbol.iterator]();
    return new ReadableStream(
      {
        async pull(controller) {
          const step = await iterator.next();
          if (step.done === true) controller.close();
          else controller.enqueue(await step.value);
        },
        async cancel(reason) {
          await iterator.return?.(reason);
        },
      },
      { highWaterMark: 0 },
    );
  }

  get locked(): boolean {
    return this.#state.reader !== null;
  }

  async cancel(reason?: unknown): Promise<void> {
    if (this.locked) throw new TypeError('Invalid state: the stream is locked');
    await this.#state.cancel(reason);
  }

  getReader(options: { mode?: string } = {}): ReadableStreamDefaultReader {
    if (options.mode !== undefined) throw new TypeError('scripts have no readers of that mode');
    return new ReadableStreamDefaultReader(this);
  }

  /** Splits the stream into two with the same chunks. */
  tee(): [ReadableStream, ReadableStream] {
    const reader = this.getReader();
    const sides: Controller[] = [];
    const gone = [false, false];
    const pull = async () => {
      const { done, value } = await reader.read();
      sides.forEach((side, index) => {
        if (gone[index]) return;
        if (done) side.close();
        else side.enqueue(value);
      });
    };
    let pulling: Promise<void> | null = null;
    const side = (index: number): ReadableStream =>
      new ReadableStream(
        {
          start: (controller) => void (sides[index] = controller),
          pull: () => (pulling ??= pull().finally(() => (pulling = null))),
          cancel: async (reason) => {
            gone[index] = true;
            if (gone[0] && gone[1]) await reader.cancel(reason);
          },
        },
        { highWaterMark: 0 },
      );
    return [side(0), side(1)];
  }

  /** Writes all chunks to a writable stream, and closes it. An error of either side ends the other. */
  async pipeTo(target: WritableStream, options: PipeOptions = {}): Promise<void> {
    const { preventAbort, preventCancel, preventClose, signal } = options;
    const reader = this.getReader();
    const writer = target.getWriter();
    /** An error that comes from the signal or from the target. */
    let failure: { reason: unknown } | null = null;
    const ended = new Promise<void>((resolve) => {
      const fail = (reason: unknown) => {
        failure ??= { reason };
        resolve();
      };
      writer.closed.catch(fail);
      if (signal?.aborted === true) fail(signal.reason);
      else signal?.addEventListener('abort', () => fail(signal.reason), { once: true });
    });
    try {
      for (;;) {
        await Promise.race([writer.ready.catch(() => {}), ended]);
        let step: ReadResult | void;
        try {
          step = failure === null ? await Promise.race([reader.read(), ended]) : undefined;
        } catch (error) {
          if (preventAbort !== true) await writer.abort(error).catch(() => {});
          throw error;
        }
        if (step === undefined) {
          const { reason } = failure!;
          if (preventCancel !== true) await reader.cancel(reason).catch(() => {});
          if (preventAbort !== true) await writer.abort(reason).catch(() => {});
          throw reason;
        }
        if (step.done) break;
        writer.write(step.value).catch(() => {});
      }
      if (preventClose !== true) await writer.close();
    } finally {
      reader.releaseLock();
      writer.releaseLock();
    }
  }

  pipeThrough(transform: { readable: ReadableStream; writable: WritableStream }, options?: PipeOptions): ReadableStream {
    this.pipeTo(transform.writable, options).catch(() => {});
    return transform.readable;
  }

  async *values(options: { preventCancel?: boolean } = {}): AsyncGenerator<unknown, void, undefined> {
    const reader = this.getReader();
    let isOver = false;
    try {
      for (;;) {
        const { done, value } = await reader.read().catch((error: unknown) => {
          isOver = true;
          throw error;
        });
        if (done) {
          isOver = true;
          return;
        }
        yield value;
      }
    } finally {
      if (!isOver && options.preventCancel !== true) await reader.cancel();
      reader.releaseLock();
    }
  }

  [Symbol.asyncIterator](options?: { preventCancel?: boolean }): AsyncGenerator<unknown, void, undefined> {
    return this.values(options);
  }

  get [Symbol.toStringTag](): string {
    return 'ReadableStream';
  }
}

export class ReadableStreamDefaultReader {
  #state: State | null;

  constructor(stream: ReadableStream) {
    if (stream.locked) throw new TypeError('Invalid state: the stream is locked');
    this.#state = stateOf(stream);
    this.#state.reader = this;
  }

  get closed(): Promise<void> {
    return this.#state?.closed ?? Promise.reject(released());
  }

  read(): Promise<ReadResult> {
    return this.#state?.read() ?? Promise.reject(released());
  }

  async cancel(reason?: unknown): Promise<void> {
    if (this.#state === null) throw released();
    await this.#state.cancel(reason);
  }

  releaseLock(): void {
    if (this.#state === null) return;
    for (const waiting of this.#state.waiting.splice(0)) waiting.reject(released());
    this.#state.reader = null;
    this.#state = null;
  }
}

function released(): TypeError {
  return new TypeError('Invalid state: the reader was released');
}

/** Whether anything has been read from a stream. */
export function isDisturbed(stream: ReadableStream): boolean {
  return stateOf(stream).wasRead;
}
