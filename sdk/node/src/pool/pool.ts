/** The public API of pools. */
import { EventEmitter } from 'node:events';
import { pathToFileURL } from 'node:url';
import type { TransferListItem } from 'node:worker_threads';
import { encode, decode, type Encoded } from '../message.js';
import { TRANSFER_MARK, Transfer } from '../transfer.js';
import type { Bytes } from '../wire.js';
import { AbortedError, ClosedError, NotSendableError, UnknownTypeError, type PoolError, type WorkerEnd } from './errors.js';
import { Dispatcher, type Counts } from './dispatcher.js';
import type { EndCause } from './fleet.js';
import type { HistogramSummary } from './histogram.js';
import { READY_PHASE, type PoolWorker } from './worker.js';
import { duration, encodeData, fileOf, settle, type Deadlines, type PoolOptions, type Settings } from './options.js';
import { PartStream, partListener } from './stream.js';
import { Task, type TaskOptions } from './task.js';
import { MessageType } from './types.js';

/** Handler functions by message type, from which `run` infers the types of messages and replies: `new Pool<typeof handlers>`. */
export type Messages = Record<string, (message: any, ...rest: any[]) => unknown>;

/** Options of `run` and `stream` for one message. */
export interface RunOptions<T extends string = string> {
  /** The message type: one of `handlers`, or a path for a `handler` of requests. May be left out if there is only one type. */
  type?: T;
  /** A file with the handler for this message, and its export (by default `default`, or else `handler`). */
  file?: string | URL;
  export?: string;
  /** Aborting it removes the message from the queue, or stops its handler. */
  signal?: AbortSignal;
  /** A total limit in milliseconds, or individual limits; the pool's limits apply to those left out. */
  deadline?: number | Deadlines;
  /** Messages with a higher priority run first; 0 by default. */
  priority?: number;
  /** Messages with the same affinity key go to the same worker as long as it lives. */
  affinity?: string;
  /** Maximum number of runs; by default `retry.attempts` of the pool. */
  attempts?: number;
  /**
   * Buffers and ports to transfer; once the message is accepted, this program can no longer use them. If the list is given, even an empty
   * one, a thread gets the message by structured clone: transferred objects without a copy, shared memory as shared memory. A message with
   * transferred objects is never retried.
   */
  transfer?: readonly TransferListItem[];
  /**
   * Called with each part that the handler sends ahead of its reply. If it returns promises, the reply is held back until all have
   * settled, and the handler may be paused. If it throws or rejects, the message is aborted with that error as the cause.
   */
  onPart?: (part: unknown) => unknown;
}

/** A message that failed its last attempt. */
export interface DeadLetter {
  readonly type: string;
  readonly message: unknown;
  readonly attempts: number;
  readonly error: PoolError;
}

/** Events of a pool. */
export interface PoolEvents {
  workerStart: [worker: { worker: number; pid: number | null; threadId: number | null }];
  workerReady: [worker: { worker: number; pid: number | null; threadId: number | null }];
  workerStop: [end: WorkerEnd & { cause: EndCause }];
  /** The queue is more than half full. */
  needsDrain: [];
  /** The queue was more than half full and has fallen below a quarter. */
  drain: [];
  /** All accepted messages are settled. */
  idle: [];
  /** No worker can be started. */
  startFailed: [error: PoolError];
  deadLetter: [letter: DeadLetter];
  /** A line of a worker's standard error. Without a listener it is written to the program's standard error. */
  stderr: [worker: number, line: string];
  /** A log entry that a handler wrote with `ctx.log`. Without a listener it is written to standard error. */
  log: [worker: number, entry: LogEntry];
}

export interface LogEntry {
  readonly level: string;
  readonly message: string;
  readonly fields?: Readonly<Record<string, unknown>>;
}

/** The current state of one worker. */
export interface WorkerStats {
  readonly worker: number;
  readonly pid: number | null;
  readonly threadId: number | null;
  readonly phase: 'starting' | 'ready' | 'draining' | 'ending' | 'ended';
  readonly messages: number;
  readonly errors: number;
  /** Messages that the worker has. */
  readonly inFlight: number;
  readonly uptimeMs: number;
  /** The share of the time since it became ready that it spent in handlers. */
  readonly utilization: number;
  readonly rss: number | null;
}

export interface TypeStats {
  readonly answered: number;
  readonly failed: number;
  readonly running: number;
  readonly run: HistogramSummary;
  readonly wait: HistogramSummary;
}

export interface PoolStats {
  readonly workers: readonly WorkerStats[];
  /** Waiting messages, and their size in bytes (for text: in characters). */
  readonly queue: number;
  readonly queueBytes: number;
  /** Messages that are accepted and not settled. */
  readonly open: number;
  readonly counts: Readonly<Counts>;
  /** Time from acceptance until the handler starts, and the handlers' run time, in milliseconds. */
  readonly wait: HistogramSummary;
  readonly run: HistogramSummary;
  readonly types: Readonly<Record<string, TypeStats>>;
  readonly uptimeMs: number;
}

const PHASES = ['starting', 'ready', 'draining', 'ending', 'ended'] as const;
/** Maximum number of message types tracked separately; callers of request handlers choose types freely. */
const TYPES_MAX = 10_000;
const CLOSE_MAX_MS = 30_000;

/**
 * Runs handlers in worker processes or threads.
 *
 * ```ts
 * import { Pool } from 'forebay/pool';
 *
 * const pool = new Pool({ handlers: { resize: './resize.mjs' } });
 * const small = await pool.run({ file: 'a.png', width: 100 }, { type: 'resize', deadline: 5_000 });
 * await pool.close();
 * ```
 */
export class Pool<M extends Messages = Messages> extends EventEmitter<PoolEvents> {
  readonly #settings: Settings;
  readonly #dispatcher: Dispatcher;
  readonly #defaultOptions: TaskOptions;
  readonly #onlyType: string | undefined;
  readonly #createdAt = performance.now();
  #closing: Promise<void> | null = null;
  #whenIdle: (() => void)[] = [];

  /** @throws TypeError or RangeError for invalid options, before any worker is started. */
  constructor(options: PoolOptions) {
    super();
    const { settings, size } = settle(options);
    this.#settings = settings;
    this.#defaultOptions = {
      priority: 0,
      affinity: undefined,
      deadlines: settings.deadlines,
      attempts: settings.retry.attempts,
      onPart: undefined,
      whenReadyForMore: undefined,
      signal: undefined,
    };
    const types = settings.sources === null ? [] : Object.keys(settings.sources);
    this.#onlyType = settings.sources === null ? '' : types.length === 1 ? types[0] : undefined;
    this.#dispatcher = new Dispatcher(settings, size, {
      started: (poolWorker) => this.#emit('workerStart', idOf(poolWorker)),
      readied: (poolWorker) => this.#emit('workerReady', idOf(poolWorker)),
      stopped: (poolWorker, cause) => this.#emit('workerStop', { ...poolWorker.end, cause }),
      failed: (error) => this.#emit('startFailed', error),
      crowded: () => this.#emit('needsDrain'),
      roomy: () => this.#emit('drain'),
      idle: () => this.#idle(),
      dead: (task, error) => this.#emit('deadLetter', { type: task.type.name, message: task.transfer === null ? messageOf(task.body) : undefined, attempts: task.attempt, error }),
      line: (poolWorker, text) => this.#line(poolWorker, text),
      log: (poolWorker, line) => this.#log(poolWorker, line as LogEntry),
    });
    this.#dispatcher.fleet.fillUp(performance.now());
  }

  // Running messages.

  /**
   * Runs a message in a worker and resolves to the reply. Rejects with a {@link PoolError}; a message that was not accepted never runs.
   */
  run<T extends keyof M & string>(message: Parameters<M[T]>[0], options?: RunOptions<T>): Promise<Awaited<ReturnType<M[T]>>> {
    const onPart = options?.onPart;
    if (onPart === undefined || 'whenReadyForMore' in options!) return this.#run(message, options);
    const { afterParts, ...listener } = partListener(onPart, options!.signal);
    return afterParts(this.#run(message, { ...options, ...listener }));
  }

  #run<T extends keyof M & string>(message: Parameters<M[T]>[0], options?: RunOptions<T>): Promise<Awaited<ReturnType<M[T]>>> {
    return new Promise((resolve, reject) => {
      let type: MessageType;
      let body: Encoded;
      let taskOptions = this.#defaultOptions;
      let transfer: Transfer | null = null;
      try {
        type = this.#typeOf(options);
        if (options !== undefined) taskOptions = this.#taskOptions(options);
        if (options?.transfer !== undefined) transfer = this.#makeTransfer(message, options.transfer);
        body = transfer === null ? encodeMessage(message) : Uint8Array.of(TRANSFER_MARK);
      } catch (error) {
        this.#dispatcher.counts.refused++;
        reject(error);
        return;
      }
      if (taskOptions.signal?.aborted === true) {
        this.#dispatcher.counts.refused++;
        reject(new AbortedError(taskOptions.signal.reason));
        return;
      }
      const task = new Task(type, body, taskOptions, performance.now(), resolve as (value: unknown) => void, reject);
      task.transfer = transfer;
      const refusal = this.#dispatcher.submit(task);
      if (refusal !== null) reject(refusal);
      else if (transfer === null && options?.transfer !== undefined) structuredClone(null, { transfer: [...options.transfer] as ArrayBuffer[] });
    });
  }

  /**
   * Runs a message whose handler answers in parts: iterate over the result for the parts; its `result` is the reply.
   *
   * ```ts
   * const stream = pool.stream({ table: 'users' }, { type: 'export' });
   * for await (const row of stream) console.log(row);
   * console.log(await stream.result);
   * ```
   */
  stream<T extends keyof M & string>(message: Parameters<M[T]>[0], options?: Omit<RunOptions<T>, 'onPart'>): PartStream<Awaited<ReturnType<M[T]>>> {
    const controller = new AbortController();
    const signal = options?.signal === undefined ? controller.signal : AbortSignal.any([controller.signal, options.signal]);
    const stream = new PartStream<Awaited<ReturnType<M[T]>>>(() => controller.abort());
    const withParts = { ...options, signal, onPart: stream.push, whenReadyForMore: stream.whenReadyForMore } as RunOptions<T>;
    stream.follow(this.run(message, withParts));
    return stream;
  }

  // For interfaces built on top of this one.

  /** Accepts a prepared task, or returns the reason for refusing it. Makes no promise. @internal */
  submit(task: Task): PoolError | null {
    return this.#dispatcher.submit(task);
  }

  /** Aborts a submitted task; does nothing if it is settled. @internal */
  abort(task: Task, reason: unknown): void {
    this.#dispatcher.abort(task, reason);
  }

  /** Makes each ready worker run a task of its own, ahead of waiting messages. @internal */
  submitToEach(task: () => Task): void {
    for (const poolWorker of [...this.#dispatcher.fleet.workers]) if (poolWorker.phase === READY_PHASE) this.#dispatcher.submitTo(poolWorker, task());
  }

  /** @throws what `run()` would reject with for these options. @internal */
  check(options: RunOptions): void {
    this.#typeOf(options);
    this.#taskOptions(options);
  }

  /** The statistics and settings of a message type. @internal */
  messageType(name: string): MessageType {
    return this.#typeByName(name);
  }

  /** Replaces a worker: it gets no more messages and ends when it has answered those that it has begun. @internal */
  replace(worker: number): void {
    const { fleet } = this.#dispatcher;
    const poolWorker = fleet.workers.find(({ id }) => id === worker);
    if (poolWorker !== undefined) fleet.replace(poolWorker, performance.now());
  }

  /** Sets `data` for workers that are started from now on. @internal */
  set data(data: unknown) {
    this.#settings.data = encodeData(data);
  }

  /** The value to post to a thread; `null` for processes, to which everything is copied. */
  #makeTransfer(message: unknown, transfer: readonly TransferListItem[]): Transfer | null {
    if (!Array.isArray(transfer)) throw new TypeError('transfer is a list of buffers and ports');
    if (this.#settings.kind === 'thread') return new Transfer(message, transfer);
    checkTransfer(transfer);
    return null;
  }

  #typeOf(options: RunOptions | undefined): MessageType {
    if (options?.file !== undefined) {
      const { href } = pathToFileURL(fileOf(options.file, this.#settings.root));
      return this.#typeByName(`${href}#${options.export ?? ''}`);
    }
    const name = options?.type ?? this.#onlyType;
    const { sources } = this.#settings;
    if (name === undefined) throw new TypeError(`a message needs a type: one of ${Object.keys(sources!).join(', ')}`);
    if (sources !== null && !Object.hasOwn(sources, name)) throw new UnknownTypeError(name, Object.keys(sources));
    return this.#typeByName(name);
  }

  #typeByName(name: string): MessageType {
    const { types } = this.#dispatcher;
    let type = types.get(name);
    if (type === undefined) {
      type = new MessageType(name, this.#settings.limits.get(name) ?? Infinity);
      if (types.size < TYPES_MAX) types.set(name, type);
    }
    return type;
  }

  #taskOptions(options: RunOptions): TaskOptions {
    const { signal, deadline, priority = 0, affinity, attempts, onPart } = options;
    const { whenReadyForMore } = options as { whenReadyForMore?: () => Promise<void> | null };
    if (signal === undefined && deadline === undefined && priority === 0 && affinity === undefined && attempts === undefined && onPart === undefined) {
      return this.#defaultOptions;
    }
    if (!Number.isSafeInteger(priority)) throw new RangeError(`priority is a whole number, not ${priority}`);
    if (attempts !== undefined && !(Number.isInteger(attempts) && attempts >= 1)) throw new RangeError(`attempts is a whole number of at least 1, not ${attempts}`);
    if (signal !== undefined && !(signal instanceof AbortSignal)) throw new TypeError('signal is an AbortSignal');
    if (affinity !== undefined && typeof affinity !== 'string') throw new TypeError(`affinity is a string, not ${typeof affinity}`);
    return { priority, affinity, deadlines: this.#deadlines(deadline), attempts: attempts ?? this.#defaultOptions.attempts, onPart, whenReadyForMore, signal };
  }

  #deadlines(deadline: number | Deadlines | undefined): TaskOptions['deadlines'] {
    const { deadlines } = this.#defaultOptions;
    if (deadline === undefined) return deadlines;
    if (typeof deadline === 'number') return { ...deadlines, total: duration('deadline', deadline) };
    return {
      queue: duration('deadline.queue', deadline.queue ?? deadlines.queue),
      run: duration('deadline.run', deadline.run ?? deadlines.run),
      total: duration('deadline.total', deadline.total ?? deadlines.total),
    };
  }

  // State and statistics.

  /** Messages that wait for a worker. */
  get queueSize(): number {
    return this.#dispatcher.backlog.count;
  }

  /** Whether the queue is more than half full; if so, wait for `drain` before you send more. */
  get needsDrain(): boolean {
    return this.#dispatcher.backlog.isCrowded;
  }

  /** Resolves when the minimum number of workers is ready; rejects if none can be started. */
  get ready(): Promise<void> {
    return this.#keepAlive(this.#dispatcher.fleet.isReady());
  }

  /** Counts and durations. `wait`, `run` and the figures by type cover the time since the start or the last {@link resetStats}. */
  stats(): PoolStats {
    const now = performance.now();
    const { fleet, backlog, counts, open, wait, run, types } = this.#dispatcher;
    return {
      workers: fleet.workers.map((poolWorker) => statsOf(poolWorker, now)),
      queue: backlog.count,
      queueBytes: backlog.bytes,
      open,
      counts: { ...counts },
      wait: wait.summary(),
      run: run.summary(),
      types: Object.fromEntries([...types.values()].map((type) => [type.name, statsOfType(type)])),
      uptimeMs: now - this.#createdAt,
    };
  }

  /** Restarts the measurement of durations. */
  resetStats(): void {
    const { wait, run, types } = this.#dispatcher;
    for (const histogram of [wait, run, ...[...types.values()].flatMap((type) => [type.wait, type.run])]) histogram.reset();
  }

  // Managing workers.

  /** Changes the number of workers; surplus workers first finish what they run. */
  resize(size: { min?: number; max?: number }): void {
    if (this.#dispatcher.isClosed) throw new ClosedError();
    this.#dispatcher.resize(size);
  }

  /**
   * Replaces all workers by ones with the current handler files, without losing a message. Rejects if these cannot start; the old workers
   * stay then.
   */
  async reload(): Promise<void> {
    if (this.#dispatcher.isClosed) throw new ClosedError();
    await this.#keepAlive(this.#dispatcher.fleet.reload());
  }

  /**
   * Stops accepting messages, and ends the workers when all accepted messages are settled. With `drain: false`, waiting messages are
   * rejected at once; after `deadline` milliseconds (30,000 by default), running ones are rejected too.
   */
  close({ drain = true, deadline = CLOSE_MAX_MS }: { drain?: boolean; deadline?: number } = {}): Promise<void> {
    duration('deadline', deadline);
    return (this.#closing ??= this.#keepAlive(this.#close(drain, deadline)));
  }

  /** Rejects all messages and ends the workers at once. */
  async destroy(): Promise<void> {
    this.#dispatcher.isClosed = true;
    this.#dispatcher.mayRetry = false;
    this.#dispatcher.fleet.close();
    this.#dispatcher.dropAll(new ClosedError('the pool was destroyed'));
    await this.#keepAlive(this.#dispatcher.fleet.end(0));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #close(drain: boolean, deadline: number): Promise<void> {
    const began = performance.now();
    this.#dispatcher.isClosed = true;
    this.#dispatcher.mayRetry = drain;
    if (!drain) this.#dispatcher.dropQueued(new ClosedError('the pool was closed while the message waited'));
    if (this.#dispatcher.open > 0) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        this.#whenIdle.push(resolve);
        if (deadline !== Infinity) timer = setTimeout(resolve, deadline);
      });
      clearTimeout(timer);
      this.#dispatcher.mayRetry = false;
      this.#dispatcher.dropAll(new ClosedError(`the pool was closed, and the message took longer than its deadline (${deadline} ms)`));
    }
    this.#dispatcher.fleet.close();
    await this.#dispatcher.fleet.end(Math.max(0, deadline - (performance.now() - began)));
  }

  #idle(): void {
    for (const resolve of this.#whenIdle.splice(0)) resolve();
    this.#emit('idle');
  }

  /**
   * Emits an event; returns whether it has listeners. An error of a listener becomes an uncaught exception, but outside of the pool's own
   * code.
   */
  #emit<E extends keyof PoolEvents>(event: E, ...args: PoolEvents[E]): boolean {
    try {
      return (this.emit as (event: string, ...args: unknown[]) => boolean).call(this, event, ...args);
    } catch (error) {
      process.nextTick(() => {
        throw error;
      });
      return true;
    }
  }

  /** Keeps the program alive until the promise is settled. */
  async #keepAlive<V>(promise: Promise<V>): Promise<V> {
    const timer = setInterval(() => {}, 1_000_000);
    try {
      return await promise;
    } finally {
      clearInterval(timer);
    }
  }

  #line(poolWorker: PoolWorker, text: string): void {
    if (!this.#emit('stderr', poolWorker.id, text)) process.stderr.write(`${text}\n`);
  }

  #log(poolWorker: PoolWorker, entry: LogEntry): void {
    if (this.#emit('log', poolWorker.id, entry)) return;
    const fields = entry.fields === undefined ? '' : ` ${JSON.stringify(entry.fields)}`;
    process.stderr.write(`${entry.level} ${this.#settings.name} ${poolWorker.id}: ${entry.message}${fields}\n`);
  }
}

function idOf(poolWorker: PoolWorker): { worker: number; pid: number | null; threadId: number | null } {
  return { worker: poolWorker.id, pid: poolWorker.host.pid, threadId: poolWorker.host.threadId };
}

function encodeMessage(message: unknown): Encoded {
  try {
    return encode(message);
  } catch (error) {
    throw new NotSendableError((error as Error).message, error);
  }
}

function messageOf(body: Encoded): unknown {
  const bytes = (typeof body === 'string' ? Buffer.from(body) : Buffer.from(body)) as Bytes;
  return decode(bytes, 0, bytes.length);
}

/** Checks that buffers can be transferred, since the actual transfer happens only after the message is accepted. */
function checkTransfer(buffers: readonly unknown[]): void {
  for (const buffer of buffers) {
    if (!(buffer instanceof ArrayBuffer)) throw new TypeError('transfer contains a value that is not an ArrayBuffer');
    if ((buffer as { detached?: boolean }).detached === true) throw new TypeError('transfer has a buffer that was transferred before');
  }
  if (new Set(buffers).size < buffers.length) throw new TypeError('transfer has a buffer twice');
}

function statsOf(poolWorker: PoolWorker, now: number): WorkerStats {
  const { id: worker, host, phase, messages, errors, inFlight, started, readyAt, busyMs } = poolWorker;
  const alive = now - readyAt;
  return {
    worker,
    pid: host.pid,
    threadId: host.threadId,
    phase: PHASES[phase],
    messages,
    errors,
    inFlight,
    uptimeMs: now - started,
    utilization: readyAt === 0 || alive <= 0 ? 0 : Math.min(1, busyMs / alive),
    rss: host.rss(),
  };
}

function statsOfType({ answered, failed, running, run, wait }: MessageType): TypeStats {
  return { answered, failed, running, run: run.summary(), wait: wait.summary() };
}

