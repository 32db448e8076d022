/** The class used by programs that were written for QOper8, on top of a pool. */
import { randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';
import { encode, type Encoded } from '../message.js';
import { AbortedError, ClosedError, NotSendableError, UnknownTypeError, type PoolError } from '../pool/errors.js';
import { duration } from '../pool/options.js';
import { Pool } from '../pool/pool.js';
import { Task, type TaskOptions } from '../pool/task.js';
import type { MessageType } from '../pool/types.js';
import { VERSION } from '../version.js';
import { Delivery, Outbox, type Callback, type QOper8Message } from './delivery.js';
import { failureOf, isNotLoaded, type WorkerName } from './failures.js';
import { Listeners, type Listener } from './listeners.js';
import { handlersOf, settle, type QOper8Options, type QOper8Settings } from './options.js';
import { memoryOf, pack, upTime, type Control, type HandlerEntry, type Setup, type StartupModule, type WorkerReport } from './setup.js';
import { unregister, register } from './signals.js';

const WORKER_FILE = fileURLToPath(new URL('./worker.js', import.meta.url));
/** A worker that does not report its state within this time is described from outside. */
const REPORT_MAX_MS = 5_000;
/** Default time that `stop()` waits for running messages. */
const STOP_MAX_MS = 30_000;

/** The result of `getStats()`. Workers are listed by id; under `worker_threads` if they are threads. */
export interface QOper8Stats {
  readonly main_process: {
    readonly pid: number;
    readonly upTime: string;
    readonly noOfMessages: number;
    readonly memory: WorkerReport['memory'];
    readonly queue_length: number;
  };
  readonly child_processes?: Readonly<Record<string, WorkerReport>>;
  readonly worker_threads?: Readonly<Record<string, WorkerReport>>;
}

/** Options of `send()`. Not in QOper8. */
export interface SendOptions {
  /** Aborting it removes the message from the queue, or replaces the worker that runs it. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds that the handler may run; overrides `handlerTimeout`. */
  readonly timeout?: number | undefined;
}

/**
 * A queue and a pool of workers with the interface of QOper8.
 *
 * ```js
 * import { QOper8 } from 'forebay/qoper8';
 *
 * const qoper8 = new QOper8({ poolSize: 2, handlersByMessageType: new Map([['hello', { module: 'hello.mjs' }]]) });
 * const reply = await qoper8.send({ type: 'hello', data: { name: 'Ada' } });
 * ```
 */
export class QOper8 {
  readonly name: string;
  /** The version of Forebay. */
  readonly build = VERSION;
  /** Always empty: builds have no date. `build` has the version. */
  readonly buildDate = '';
  /** Handlers by message type; entries added later apply to all workers. */
  readonly handlersByMessageType: Map<string, HandlerEntry>;
  readonly #settings: QOper8Settings;
  readonly #listeners = new Listeners(this);
  readonly #outbox = new Outbox();
  readonly #control = randomUUID();
  readonly #workerName: WorkerName;
  readonly #made = Date.now();
  #onStartup: StartupModule | null;
  #logging: boolean;
  #poolSize: number;
  /** Created with the first message. */
  #pool: Pool | null = null;
  /** Message types used so far in the current pool. */
  readonly #types = new Map<string, MessageType>();
  /** Types whose handlers the workers know, and whether these have changed since the pool was created. */
  #toldTypes = new Set<string>();
  #hasChanged = false;
  /** The id of the first worker of the current pool, and the next unused id. */
  #firstId = 0;
  #nextId = 0;
  #isStopped = false;
  #stopping: Promise<void> | null = null;
  #messages = 0;
  /** The message that is being submitted to the pool at the moment. */
  #submitting: Delivery | null = null;
  /** Ids for QBackup continue above those of earlier runs of the program. */
  #lastBackupId = Date.now() * 1_000;
  readonly #defaultOptions: TaskOptions;
  /** Options for messages when `sentToWorker` events or log lines are wanted. */
  readonly #notifyingOptions: TaskOptions;

  /** @throws TypeError or RangeError for invalid options. */
  constructor(options: QOper8Options = {}) {
    const settings = (this.#settings = settle(options));
    this.#poolSize = settings.poolSize;
    this.#onStartup = startup(options.onStartup || null);
    this.#logging = settings.mayLog && options.logging === true;
    const handlers = options.handlersByMessageType ?? new Map<string, HandlerEntry>();
    this.handlersByMessageType = handlers instanceof Map ? handlers : new Map(Object.entries(handlers));
    handlersOf(this.handlersByMessageType);
    const isThread = settings.kind === 'thread';
    this.name = isThread ? 'QOper8-wt' : 'QOper8-cp';
    this.#workerName = isThread ? 'Worker Thread' : 'Child Process';
    this.#defaultOptions = {
      priority: 0,
      affinity: undefined,
      deadlines: { queue: Infinity, run: settings.handlerTimeout, total: Infinity },
      attempts: 1,
      onPart: (part, task) => this.#part(task as Delivery, part),
      whenReadyForMore: undefined,
      signal: undefined,
    };
    this.#notifyingOptions = { ...this.#defaultOptions, onSent: (task) => this.#sent(task as Delivery) };
    this.log(`Forebay ${VERSION} as ${this.name} in process ${process.pid}, at most ${this.#poolSize} workers`);
  }

  // Sending messages.

  /** Queues a message. The callback is called with the reply, and before it with each part that the handler sends. */
  message(message: QOper8Message, callback?: Callback | null): void {
    this.#accept(message, callback ?? null, true, null);
  }

  /** Queues a message. Resolves to the handler's reply, or to an object with a member `error`; never rejects. */
  send(message: QOper8Message, options?: SendOptions): Promise<any> {
    return new Promise((resolve) => this.#accept(message, resolve, false, options ?? null));
  }

  /**
   * Like `send`, for callers that look at the cause of an error (see `causeOf`): the reply is passed on unmarked. Returns `null` if the
   * message is not accepted. @internal
   */
  deliver(message: QOper8Message, callback: Callback, timeout: number | undefined): Delivery | null {
    return this.#accept(message, callback, false, timeout === undefined ? null : { timeout }, false);
  }

  /** Aborts a message: removes it from the queue, or replaces the worker that runs it; does nothing if it is settled. @internal */
  abort(delivery: Delivery, reason: unknown): void {
    this.#pool?.abort(delivery, reason);
  }

  #accept(message: QOper8Message, callback: Callback | null, takesParts: boolean, options: SendOptions | null, isMarked = true): Delivery | null {
    let result: Delivery | PoolError;
    try {
      result = this.#submit(message, callback, takesParts, options, isMarked);
    } catch (error) {
      result = new NotSendableError((error as Error).message, error);
    }
    if (result instanceof Delivery) return result;
    this.log(`message refused: ${result.message}`);
    const failure = failureOf(result, message, undefined, this.#workerName, this.#settings, this.#control);
    if (callback !== null) this.#outbox.give(callback, failure, undefined);
    return null;
  }

  #submit(message: QOper8Message, callback: Callback | null, takesParts: boolean, options: SendOptions | null, isMarked: boolean): Delivery | PoolError {
    if (this.#isStopped) return new ClosedError();
    const type = this.#types.get(message?.type) ?? this.#typeOf(message);
    if (type === null) return new UnknownTypeError(String(message.type), this.handlersByMessageType.keys());
    const body: Encoded = encode(message);
    let taskOptions = this.#listeners.has('sentToWorker') || this.#logging ? this.#notifyingOptions : this.#defaultOptions;
    if (options !== null) {
      const { signal, timeout } = options;
      if (signal?.aborted === true) return new AbortedError(signal.reason);
      const { deadlines } = taskOptions;
      const run = timeout === undefined ? deadlines.run : duration('timeout', timeout);
      taskOptions = { ...taskOptions, signal, deadlines: run === deadlines.run ? deadlines : { ...deadlines, run } };
    }
    const delivery = new Delivery(this, message, callback, takesParts, type, body, taskOptions, performance.now());
    delivery.isMarked = isMarked;
    this.#submitting = delivery;
    const refusal = this.#pool!.submit(delivery);
    const isSent = this.#submitting === null;
    this.#submitting = null;
    if (refusal !== null) return refusal;
    this.#messages++;
    if (this.#settings.backup !== null || this.#listeners.has('QBackupAdd')) this.#keep(delivery);
    if (this.#listeners.has('addedToQueue')) this.#listeners.emit('addedToQueue', message);
    if (isSent) this.#sent(delivery);
    return delivery;
  }

  /** The pool's record of a message type that was not used before; `null` if it has no handler. */
  #typeOf(message: QOper8Message): MessageType | null {
    if (typeof message !== 'object' || message === null) throw new TypeError(`a message is an object with a type, not ${message === null ? 'null' : typeof message}`);
    const { type } = message;
    if (typeof type !== 'string') throw new TypeError('No type or handler specified in message');
    if (!this.handlersByMessageType.has(type)) return null;
    const pool = this.#open();
    if (!this.#toldTypes.has(type)) this.#configure();
    const found = pool.messageType(type);
    this.#types.set(type, found);
    return found;
  }

  /** A part of the reply has arrived. */
  #part(delivery: Delivery, part: unknown): void {
    const id = this.#idOf(delivery);
    if (this.#listeners.has('replyReceived')) this.#listeners.emit('replyReceived', { reply: part, workerId: id });
    if (delivery.callback !== null && delivery.takesParts) this.#outbox.give(delivery.callback, part, id);
  }

  #sent(delivery: Delivery): void {
    if (delivery === this.#submitting) {
      // Sent to a worker at once; the event follows after that of its acceptance.
      this.#submitting = null;
      return;
    }
    const workerId = this.#idOf(delivery);
    this.log(`message of type ${delivery.message.type} sent to worker ${workerId}`);
    this.#listeners.emit('sentToWorker', { message: delivery.message, workerId });
  }

  /** @internal */
  replied(delivery: Delivery, reply: unknown): void {
    const id = this.#idOf(delivery);
    if (this.#listeners.has('replyReceived')) this.#listeners.emit('replyReceived', { reply: copyOf(reply), workerId: id });
    if (delivery.id !== 0) this.#release(delivery.id);
    if (this.#logging) this.log(`reply of worker ${id}: ${jsonOf(reply)}`);
    if (delivery.callback === null) return;
    if (delivery.isMarked && typeof reply === 'object' && reply !== null) markFinished(reply as { qoper8?: unknown });
    this.#outbox.give(delivery.callback, reply, id);
  }

  /** @internal */
  failed(delivery: Delivery, error: PoolError): void {
    const { message, worker, callback } = delivery;
    const id = worker === 0 ? undefined : this.#idOf(delivery);
    const failure = failureOf(error, message, id, this.#workerName, this.#settings, this.#control);
    if (error.code === 'handler_error') {
      // The failed handler may have started work that still runs, so no other message may run there. A handler that could not be loaded has
      // started nothing.
      if (!isNotLoaded(error, this.#control)) this.#pool?.replace(worker);
      this.#listeners.emit('replyReceived', { reply: copyOf(failure), workerId: id });
      if (delivery.id !== 0) this.#release(delivery.id);
    } else if (error.code === 'crashed') {
      this.#listeners.emit(this.#settings.kind === 'thread' ? 'threadExit' : 'childProcessExit', message);
    }
    this.log(`message of type ${message.type} failed: ${error.message}`);
    if (callback !== null) this.#outbox.give(callback, failure, id);
  }

  #idOf({ worker }: Task): number {
    return this.#firstId + worker - 1;
  }

  // The backup of the queue.

  #keep(delivery: Delivery): void {
    const id = (delivery.id = ++this.#lastBackupId);
    const { qoper8, ...requestObject } = delivery.message;
    this.#listeners.emit('QBackupAdd', { id, requestObject });
    this.#backUp((backup) => backup.add?.(id, requestObject));
  }

  #release(id: number): void {
    this.#listeners.emit('QBackupDelete', id);
    this.#backUp((backup) => backup.delete?.(id));
  }

  #backUp(step: (backup: NonNullable<QOper8Settings['backup']>) => unknown): void {
    const { backup } = this.#settings;
    if (backup === null) return;
    try {
      const result = step(backup);
      if (result instanceof Promise) result.catch((error: unknown) => this.#backupFailed(error));
    } catch (error) {
      this.#backupFailed(error);
    }
  }

  #backupFailed(error: unknown): void {
    if (this.#listeners.has('QBackupError')) this.#listeners.emit('QBackupError', error);
    else process.stderr.write(`forebay: QBackup failed: ${error instanceof Error ? error.stack : String(error)}\n`);
  }

  // Managing workers.

  #open(): Pool {
    if (this.#pool !== null) return this.#pool;
    const { kind, maxQueueLength, maxQueueBytes, handlerTimeout, inactivityLimit, pool: more } = this.#settings;
    this.#firstId = this.#nextId;
    this.#hasChanged = false;
    const pool = new Pool({
      ...more,
      name: 'qoper8',
      handler: WORKER_FILE,
      kind,
      size: { min: Math.min(more.size?.min ?? 0, this.#poolSize), max: this.#poolSize },
      queueMax: maxQueueLength,
      queueBytesMax: maxQueueBytes,
      deadlines: { queue: Infinity, run: handlerTimeout, total: Infinity },
      idleMax: inactivityLimit,
      data: this.#setup(),
    });
    this.#pool = pool;
    const firstId = this.#firstId;
    pool.on('workerStart', ({ worker }) => {
      this.#nextId = Math.max(this.#nextId, firstId + worker);
      this.log(`worker ${firstId + worker - 1} is started`);
      this.#listeners.emit('workerStarted', firstId + worker - 1);
    });
    // A worker that was starting when handlers changed may not know of it.
    pool.on('workerReady', () => this.#hasChanged && this.#tell());
    pool.on('workerStop', ({ worker, cause }) => {
      this.log(`worker ${firstId + worker - 1} has ended (${cause})`);
      this.#listeners.emit('workerStopped', firstId + worker - 1);
    });
    pool.on('startFailed', (error) => {
      this.log(error.message);
      this.#listeners.emit('workerFailed', error);
    });
    register(this);
    return pool;
  }

  #setup(): Setup {
    const { cacheExpiryTime, checkInterval, mgdbx } = this.#settings;
    this.#toldTypes = new Set(this.handlersByMessageType.keys());
    return {
      firstId: this.#firstId,
      control: this.#control,
      handlers: handlersOf(this.handlersByMessageType),
      onStartup:
        this.#onStartup === null
          ? null
          : { module: this.#onStartup.module, path: this.#onStartup.path ?? null, packed: pack(this.#onStartup.arguments) },
      mgdbx,
      logging: this.#logging,
      cacheExpiryTime,
      checkInterval,
    };
  }

  /** Sends changed settings to all workers, including future ones. */
  #configure(): void {
    const pool = this.#pool;
    if (pool === null) return;
    pool.data = this.#setup();
    this.#hasChanged = true;
    this.#tell();
  }

  #tell(): void {
    void this.#ask({ ask: 'configure', logging: this.#logging, handlers: handlersOf(this.handlersByMessageType) }, () => {});
  }

  /** Sends a question to each ready worker; resolves when all have answered or ended. */
  #ask(control: Control, answered: (answer: any) => void): Promise<void> {
    const pool = this.#pool;
    if (pool === null) return Promise.resolve();
    const body = encode(control);
    const type = pool.messageType(this.#control);
    const taskOptions: TaskOptions = { ...this.#defaultOptions, onPart: undefined, deadlines: { queue: REPORT_MAX_MS, run: Infinity, total: REPORT_MAX_MS } };
    const all: Promise<void>[] = [];
    pool.submitToEach(() => {
      let task!: Task;
      all.push(
        new Promise<void>((resolve) => {
          const reply = (answer: unknown): void => {
            answered(answer);
            resolve();
          };
          task = new Task(type, body, taskOptions, performance.now(), reply, () => resolve());
        }),
      );
      return task;
    });
    return Promise.all(all).then(() => {});
  }

  /** Changes the number of workers; values outside of 1 to `maxPoolSize` are ignored. Surplus workers finish what they run. */
  setPoolSize(size: number | string): void {
    const wanted = Number(size);
    if (!Number.isInteger(wanted) || wanted < 1 || wanted > this.#settings.maxPoolSize) return;
    this.#poolSize = wanted;
    this.#pool?.resize({ min: Math.min(this.#settings.pool.size?.min ?? 0, wanted), max: wanted });
  }

  /**
   * Sets a module that each worker runs first, and replaces existing workers. Has no effect if one was set already, here or by the option
   * `onStartup`.
   */
  setOnStartupModule(module: StartupModule): void {
    if (this.#onStartup !== null) return;
    this.#onStartup = startup(module);
    const pool = this.#pool;
    if (pool === null) return;
    pool.data = this.#setup();
    // If workers do not start, the senders of messages get the error.
    void pool.reload().catch(() => {});
  }

  /**
   * Stops accepting messages, ends the workers once they have answered what they run, and then the program if `exitOnStop` is set. Waiting
   * messages are answered with an error, and after `deadline` milliseconds running ones too.
   */
  stop({ deadline = STOP_MAX_MS }: { deadline?: number } = {}): Promise<void> {
    this.#isStopped = true;
    unregister(this);
    return (this.#stopping ??= this.#close(deadline).finally(() => (this.#stopping = null)));
  }

  async #close(deadline: number): Promise<void> {
    const pool = this.#pool;
    if (pool !== null) {
      await pool.close({ drain: false, deadline });
      this.#types.clear();
      if (this.#pool === pool) this.#pool = null;
    }
    this.#listeners.emit('stop');
    this.log('no workers are running: QOper8 takes no more messages');
    if (this.#settings.exitOnStop) process.exit();
  }

  /** Accepts messages again after `stop()`. */
  start(): void {
    if (this.#stopping === null) {
      this.#isStopped = false;
      this.#listeners.emit('start');
    } else {
      void this.#stopping.then(() => this.start());
    }
  }

  // State and statistics.

  /** Messages that wait for a worker. */
  getQueueLength(): number {
    return this.#pool?.queueSize ?? 0;
  }

  /** Messages accepted so far. */
  getMessageCount(): number {
    return this.#messages;
  }

  /** Time since creation, such as `0 days 0:00:07`. */
  upTime(): string {
    return upTime(this.#made);
  }

  /** Asks all workers for their state. A worker that is busy reports after its handler; after five seconds it is described from outside. */
  async getStats(): Promise<QOper8Stats> {
    const workers: Record<string, WorkerReport> = {};
    const firstId = this.#firstId;
    for (const { worker, pid, uptimeMs, messages, rss, phase } of this.#pool?.stats().workers ?? []) {
      if (phase !== 'ready') continue;
      const memory = memoryOf({ rss: rss ?? 0, heapTotal: 0, heapUsed: 0 });
      workers[firstId + worker - 1] = { pid: pid ?? process.pid, uptime: upTime(Date.now() - uptimeMs), noOfMessages: messages, memory, ignoredReplies: 0 };
    }
    await this.#ask({ ask: 'stats' }, ({ id, report }: { id: number; report: WorkerReport }) => (workers[id] = report));
    return {
      main_process: {
        pid: process.pid,
        upTime: this.upTime(),
        noOfMessages: this.#messages,
        memory: memoryOf(process.memoryUsage()),
        queue_length: this.getQueueLength(),
      },
      ...(this.#settings.kind === 'thread' ? { worker_threads: workers } : { child_processes: workers }),
    };
  }

  // Events and logging.

  /** Adds a listener. The guide lists the events; programs may emit their own. */
  on(event: string, listener: Listener): void {
    this.#listeners.on(event, listener);
  }

  /** Removes a listener, or all listeners of an event. */
  off(event: string, listener?: Listener): void {
    this.#listeners.off(event, listener);
  }

  emit(event: string, data?: unknown): void {
    this.#listeners.emit(event, data);
  }

  /** Whether to log events to the console, here and in workers. */
  get logging(): boolean {
    return this.#logging;
  }

  set logging(logging: boolean) {
    const wanted = this.#settings.mayLog && logging;
    if (wanted === this.#logging) return;
    this.#logging = wanted;
    this.#configure();
  }

  /** Writes a line with a timestamp to the console, if logging is on. */
  log(message: unknown): void {
    if (this.#logging) console.log(`${Date.now()}: ${String(message)}`);
  }
}

function startup(module: StartupModule | null): StartupModule | null {
  if (module === null) return null;
  if (typeof module.module !== 'string') throw new TypeError('a start-up module is { module, path, arguments }');
  return module;
}

function markFinished(reply: { qoper8?: unknown }): void {
  const { qoper8 } = reply;
  if (typeof qoper8 === 'object' && qoper8 !== null) (qoper8 as { finished?: boolean }).finished = true;
  else reply.qoper8 = { finished: true };
}

/** A copy of a reply without the member `qoper8`. */
function copyOf(reply: unknown): unknown {
  if (typeof reply !== 'object' || reply === null || Array.isArray(reply)) return reply;
  const { qoper8, ...rest } = reply as { qoper8?: unknown };
  return rest;
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    return String(value);
  }
}
