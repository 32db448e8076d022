/** Writable streams and transform streams (Streams, sections 5 and 6) with default writers. */
import { ReadableStream, type Controller, type Strategy } from './streams.js';

export interface Sink {
  start?: (controller: WritableStreamDefaultController) => unknown;
  write?: (chunk: unknown, controller: WritableStreamDefaultController) => unknown;
  close?: () => unknown;
  abort?: (reason: unknown) => unknown;
}

export interface Transformer {
  start?: (controller: TransformController) => unknown;
  transform?: (chunk: unknown, controller: TransformController) => unknown;
  flush?: (controller: TransformController) => unknown;
  cancel?: (reason: unknown) => unknown;
}

export interface TransformController {
  readonly desiredSize: number | null;
  enqueue(chunk: unknown): void;
  error(reason?: unknown): void;
  terminate(): void;
}

/** A promise with what settles it; its rejection need not be handled. */
class Deferred {
  readonly promise: Promise<void>;
  resolve!: () => void;
  reject!: (reason: unknown) => void;

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.resolve = resolve;
      this.reject = reject;
    });
    this.promise.catch(() => {});
  }
}

/** A chunk, or the end of the stream, that the sink has not taken. */
interface Entry {
  readonly chunk: unknown;
  readonly size: number;
  readonly isEnd: boolean;
  readonly done: Deferred;
}

/** The state shared by a stream and its writer. */
class State {
  readonly sink: Sink;
  readonly highWaterMark: number;
  readonly size: (chunk: unknown) => number;
  readonly controller = new WritableStreamDefaultController(this);
  readonly closed = new Deferred();
  readonly aborter = new AbortController();
  ready = new Deferred();
  writer: WritableStreamDefaultWriter | null = null;
  stage: 'writable' | 'closing' | 'closed' | 'errored' = 'writable';
  reason: unknown;
  readonly queue: Entry[] = [];
  queued = 0;
  isBusy = true;
  /** Runs when the sink has finished what it is doing. */
  afterBusy: (() => void) | null = null;

  constructor(sink: Sink, highWaterMark: number, size: (chunk: unknown) => number) {
    this.sink = sink;
    this.highWaterMark = highWaterMark;
    this.size = size;
    if (highWaterMark > 0) this.ready.resolve();
    const started = sink.start?.(this.controller);
    Promise.resolve(started).then(
      () => this.idle(),
      (error: unknown) => {
        this.fail(error);
        this.idle();
      },
    );
  }

  get desiredSize(): number | null {
    if (this.stage === 'errored') return null;
    return this.stage === 'closed' ? 0 : this.highWaterMark - this.queued;
  }

  /** The sink has finished what it was doing. */
  idle(): void {
    this.isBusy = false;
    this.afterBusy?.();
    this.advance();
  }

  write(chunk: unknown): Promise<void> {
    const problem = this.problem();
    if (problem !== null) return Promise.reject(problem);
    let size: number;
    try {
      size = Number(this.size(chunk));
      if (!(size >= 0) || size === Infinity) throw new RangeError(`${size} is no size of a chunk`);
    } catch (error) {
      this.fail(error);
      return Promise.reject(error as Error);
    }
    return this.add({ chunk, size, isEnd: false, done: new Deferred() });
  }

  close(): Promise<void> {
    const problem = this.problem();
    if (problem !== null) return Promise.reject(problem);
    this.stage = 'closing';
    return this.add({ chunk: undefined, size: 0, isEnd: true, done: new Deferred() });
  }

  /** Why nothing more can be written. */
  problem(): unknown {
    if (this.stage === 'errored') return this.reason;
    return this.stage === 'writable' ? null : new TypeError('Invalid state: the stream is closed');
  }

  add(entry: Entry): Promise<void> {
    this.queue.push(entry);
    this.queued += entry.size;
    if (this.desiredSize! <= 0 && this.stage === 'writable') {
      this.ready.resolve();
      this.ready = new Deferred();
    }
    this.advance();
    return entry.done.promise;
  }

  /** Gives the next chunk to the sink if that is idle. */
  advance(): void {
    const entry = this.queue[0];
    if (this.isBusy || entry === undefined) return;
    this.isBusy = true;
    void this.take(entry);
  }

  async take(entry: Entry): Promise<void> {
    try {
      await (entry.isEnd ? this.sink.close?.() : this.sink.write?.(entry.chunk, this.controller));
      if (this.stage !== 'errored') this.taken(entry);
    } catch (error) {
      this.fail(error);
    }
    this.idle();
  }

  taken(entry: Entry): void {
    this.queue.shift();
    this.queued = Math.max(0, this.queued - entry.size);
    entry.done.resolve();
    if (entry.isEnd) {
      this.stage = 'closed';
      this.closed.resolve();
    } else if (this.desiredSize! > 0) {
      this.ready.resolve();
    }
  }

  fail(reason: unknown): void {
    if (this.stage === 'errored' || this.stage === 'closed') return;
    this.stage = 'errored';
    this.reason = reason;
    for (const { done } of this.queue.splice(0)) done.reject(reason);
    this.ready.reject(reason);
    this.closed.reject(reason);
  }

  async abort(reason: unknown): Promise<void> {
    if (this.stage === 'errored' || this.stage === 'closed') return;
    this.aborter.abort(reason);
    const isBusy = this.isBusy;
    this.fail(reason);
    if (isBusy) await new Promise<void>((resolve) => (this.afterBusy = resolve));
    await this.sink.abort?.(reason);
  }
}

export class WritableStreamDefaultController {
  readonly #state: State;

  constructor(state: State) {
    this.#state = state;
  }

  get signal(): AbortSignal {
    return this.#state.aborter.signal;
  }

  error(reason?: unknown): void {
    this.#state.fail(reason);
  }
}

let stateOf: (stream: WritableStream) => State;

export class WritableStream {
  readonly #state: State;

  static {
    stateOf = (stream) => stream.#state;
  }

  constructor(sink: Sink = {}, strategy: Strategy = {}) {
    const mark = Number(strategy.highWaterMark ?? 1);
    if (Number.isNaN(mark) || mark < 0) throw new RangeError(`${mark} is no highWaterMark`);
    this.#state = new State(sink, mark, strategy.size ?? (() => 1));
  }

  get locked(): boolean {
    return this.#state.writer !== null;
  }

  getWriter(): WritableStreamDefaultWriter {
    return new WritableStreamDefaultWriter(this);
  }

  async abort(reason?: unknown): Promise<void> {
    if (this.locked) throw new TypeError('Invalid state: the stream is locked');
    await this.#state.abort(reason);
  }

  async close(): Promise<void> {
    if (this.locked) throw new TypeError('Invalid state: the stream is locked');
    await this.#state.close();
  }

  get [Symbol.toStringTag](): string {
    return 'WritableStream';
  }
}

export class WritableStreamDefaultWriter {
  #state: State | null;

  constructor(stream: WritableStream) {
    if (stream.locked) throw new TypeError('Invalid state: the stream is locked');
    this.#state = stateOf(stream);
    this.#state.writer = this;
  }

  get closed(): Promise<void> {
    return this.#state?.closed.promise ?? Promise.reject(released());
  }

  get ready(): Promise<void> {
    return this.#state?.ready.promise ?? Promise.reject(released());
  }

  get desiredSize(): number | null {
    if (this.#state === null) throw released();
    if (this.#state.stage === 'errored') return null;
    return this.#state.desiredSize;
  }

  write(chunk?: unknown): Promise<void> {
    return this.#state?.write(chunk) ?? Promise.reject(released());
  }

  close(): Promise<void> {
    return this.#state?.close() ?? Promise.reject(released());
  }

  abort(reason?: unknown): Promise<void> {
    return this.#state?.abort(reason) ?? Promise.reject(released());
  }

  releaseLock(): void {
    if (this.#state === null) return;
    this.#state.writer = null;
    this.#state = null;
  }
}

function released(): TypeError {
  return new TypeError('Invalid state: the writer was released');
}

export class TransformStream {
  readonly readable: ReadableStream;
  readonly writable: WritableStream;

  constructor(transformer: Transformer = {}, writableStrategy: Strategy = {}, readableStrategy: Strategy = { highWaterMark: 0 }) {
    let source!: Controller;
    /** Resolved while the readable side wants a chunk. */
    let wanted = new Deferred();
    /** Resolved once it has enough, so that it asks again. */
    let enough = new Deferred();
    const settle = () => {
      if (source.desiredSize === null || source.desiredSize > 0) return;
      wanted = new Deferred();
      enough.resolve();
    };
    const controller: TransformController = {
      get desiredSize() {
        return source.desiredSize;
      },
      enqueue: (chunk) => {
        source.enqueue(chunk);
        settle();
      },
      error: (reason) => {
        source.error(reason);
        stateOf(this.writable).fail(reason);
        wanted.resolve();
      },
      terminate: () => {
        source.close();
        stateOf(this.writable).fail(new TypeError('Invalid state: the stream was terminated'));
        wanted.resolve();
      },
    };
    this.readable = new ReadableStream(
      {
        start: (given) => void (source = given),
        pull: () => {
          enough = new Deferred();
          wanted.resolve();
          return enough.promise;
        },
        cancel: async (reason) => {
          stateOf(this.writable).fail(reason);
          wanted.resolve();
          await transformer.cancel?.(reason);
        },
      },
      readableStrategy,
    );
    const guarded = async (work: () => unknown) => {
      try {
        await work();
      } catch (error) {
        source.error(error);
        throw error;
      }
    };
    this.writable = new WritableStream(
      {
        start: () => transformer.start?.(controller),
        write: async (chunk) => {
          await wanted.promise;
          const state = stateOf(this.writable);
          if (state.stage === 'errored') throw state.reason;
          await guarded(() => (transformer.transform === undefined ? controller.enqueue(chunk) : transformer.transform(chunk, controller)));
        },
        close: () =>
          guarded(async () => {
            await transformer.flush?.(controller);
            source.close();
            enough.resolve();
          }),
        abort: async (reason) => {
          source.error(reason);
          await transformer.cancel?.(reason);
        },
      },
      writableStrategy,
    );
  }

  get [Symbol.toStringTag](): string {
    return 'TransformStream';
  }
}
