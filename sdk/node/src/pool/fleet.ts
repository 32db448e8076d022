/**
 * The workers of a pool: how many there are, and when each is started, replaced and ended.
 *
 * A worker that ends after it was ready is replaced at once. Failed starts back off; meanwhile, messages that would need a new worker are
 * refused.
 */
import { DRAINING, ENDED, ENDING, PoolWorker, READY_PHASE, STARTING, type PoolWorkerEvents } from './worker.js';
import { ClosedError, StartFailedError, describeEnd } from './errors.js';
import { settleSize, type Settings, type Size } from './options.js';
import type { Task } from './task.js';

/** Delay after the first failed start; doubled for each further one, up to BACKOFF_MAX_MS. */
const BACKOFF_MS = 100;
const BACKOFF_MAX_MS = 10_000;
/** A worker that ends within this time of becoming ready, without having answered, counts as a failed start. */
const SETTLED_MS = 1_000;
/** Longest time for stop hooks once a draining worker runs no more messages, which have deadlines of their own. */
const DRAIN_MAX_MS = 30_000;
/** How long to wait for the end of a killed worker, such as a thread stuck in native code. */
const UNKILLABLE_MS = 2_000;
/** How often idle workers are checked. */
const CHECK_MS = 500;
/** Spread of `recycle.age`: each worker lives up to this share longer, so that they are not all replaced at once. */
const AGE_SPREAD = 0.1;

/** Why a worker ended. */
export type EndCause = 'crashed' | 'overran' | 'start_failed' | 'idle' | 'recycled' | 'reloaded' | 'resized' | 'closed';

/** Events that the fleet reports. */
export interface FleetEvents {
  started(worker: PoolWorker): void;
  readied(worker: PoolWorker): void;
  stopped(worker: PoolWorker, cause: EndCause): void;
  log(worker: PoolWorker, line: unknown): void;
  line(worker: PoolWorker, text: string): void;
  /** No worker is running or starting, and starts fail. */
  failed(error: StartFailedError): void;
  /** Message types whose handlers have answered; workers of a reload load them before they are ready. */
  used(): string[];
  /** A worker is ready for messages. */
  ready(worker: PoolWorker): void;
  /** A worker takes no more messages; those that it has not begun go to others. */
  retiring(worker: PoolWorker): void;
  /** A worker has ended, with the messages that it had. */
  exited(worker: PoolWorker, wasBegun: (task: Task) => boolean): void;
}

export class Fleet {
  readonly workers: PoolWorker[] = [];
  size: Size;
  readonly #settings: Settings;
  readonly #workerEvents: PoolWorkerEvents;
  readonly #events: FleetEvents;
  #ids = 0;
  #generation = 0;
  #edition = 1;
  /** Why each worker that was told to end was told so. */
  readonly #causes = new WeakMap<PoolWorker, EndCause>();
  /** Consecutive failed starts. */
  #failures = 0;
  #failure: StartFailedError | null = null;
  #retryAt = 0;
  #isClosed = false;
  #checkTimer: NodeJS.Timeout | null = null;
  #lastCheck = 0;
  /** Called when the last worker has ended. */
  #whenEmpty: (() => void)[] = [];
  /** Settles when the last reload has finished, successfully or not. */
  #lastReload: Promise<unknown> = Promise.resolve();
  /** Callers waiting until enough workers of an edition are ready. */
  #waiters: { readonly edition: number; readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];

  constructor(settings: Settings, size: Size, workerEvents: PoolWorkerEvents, events: FleetEvents) {
    this.#settings = settings;
    this.size = size;
    this.#workerEvents = workerEvents;
    this.#events = events;
  }

  // Number of workers.

  /** Workers that are starting or ready and are not being replaced. */
  get lasting(): number {
    let count = 0;
    for (const worker of this.workers) if (worker.phase <= READY_PHASE && !worker.isOutgoing) count++;
    return count;
  }

  /** Workers that are being started or still may be, up to the maximum. */
  get coming(): number {
    let ready = 0;
    for (const worker of this.workers) if (worker.phase === READY_PHASE && !worker.isOutgoing) ready++;
    return Math.max(0, this.size.max - ready);
  }

  get #starting(): number {
    let count = 0;
    for (const worker of this.workers) if (worker.phase === STARTING) count++;
    return count;
  }

  get ready(): number {
    let count = 0;
    for (const worker of this.workers) if (worker.phase === READY_PHASE) count++;
    return count;
  }

  /** Why no worker can be started; `null` if one is there or may be started. */
  failure(now: number): StartFailedError | null {
    if (this.#failure === null || now >= this.#retryAt || this.ready > 0 || this.#starting > 0) return null;
    return this.#failure;
  }

  /** Starts workers up to the minimum size. */
  fillUp(now: number): void {
    if (this.#isClosed) return;
    this.#watch();
    if (now < this.#retryAt) return;
    while (this.lasting < this.size.min) this.#start(now);
  }

  /** Starts workers for `waiting` messages, if more workers would help. */
  grow(waiting: number, now: number, isSlow = false): void {
    if (this.#isClosed || now < this.#retryAt) return;
    // As long as the workers that are ready keep up, more would only share the same work.
    if (this.ready > 0 && !isSlow) return;
    const target = Math.min(this.size.max, this.ready + Math.ceil(waiting / this.#settings.concurrency));
    while (this.lasting < target) this.#start(now);
  }

  /** @throws RangeError for an invalid size. */
  resize(size: { min?: number; max?: number }, now: number): void {
    this.size = settleSize(size);
    const surplus = this.lasting - this.size.max;
    // Idle workers first, then the youngest.
    const order = this.workers.filter(({ phase, isOutgoing }) => phase <= READY_PHASE && !isOutgoing).sort((a, b) => a.inFlight - b.inFlight || b.id - a.id);
    for (const worker of order.slice(0, Math.max(0, surplus))) this.#retire(worker, 'resized', now);
    this.fillUp(now);
  }

  /** Starts a worker that loads the handlers of these types before it is ready. */
  #start(now: number, load: readonly string[] = []): void {
    this.#generation = (this.#generation % 0xffff) + 1;
    const worker = new PoolWorker(++this.#ids, this.#generation, this.#edition, this.#settings, this.#workerEvents, now, load);
    this.workers.push(worker);
    this.#watch();
    this.#events.started(worker);
  }

  // Events of workers.

  handleReady(worker: PoolWorker): void {
    const now = performance.now();
    worker.move(READY_PHASE, now);
    worker.readyAt = worker.lastAnswer = now;
    this.#failure = null;
    this.#retryAt = 0;
    this.#events.readied(worker);
    this.#replace(now);
    this.#answerWaiters();
    this.#events.ready(worker);
  }

  handleEnd(worker: PoolWorker): void {
    const now = performance.now();
    const wasReady = worker.readyAt > 0;
    const { phase } = worker;
    const hasSettled = wasReady && (worker.messages > 0 || now - worker.readyAt > SETTLED_MS || worker.inFlight > 0);
    const cause = this.#causes.get(worker) ?? (wasReady ? 'crashed' : 'start_failed');
    worker.move(ENDED, now);
    this.workers.splice(this.workers.indexOf(worker), 1);
    // Before the `gone` event, whose handler may start workers: a failed start must back off first.
    if (phase <= READY_PHASE && !hasSettled && !this.#causes.has(worker)) this.#handleFailedStart(worker, now);
    this.#events.exited(worker, (task) => wasReady && worker.hasBegun(task));
    this.#events.stopped(worker, cause);
    this.#resolveIfEmpty();
    if (!this.#isClosed) this.fillUp(now);
  }

  #handleFailedStart(worker: PoolWorker, now: number): void {
    const { message, stack } = worker.startFailure ?? {};
    const end = worker.end;
    const reason = message ?? `worker ${worker.id} ended before it was ready: ${describeEnd(end)}`;
    const cause = message === undefined ? undefined : Object.assign(new Error(message), stack === undefined ? {} : { stack });
    const error = new StartFailedError(reason, end, cause);
    this.#failures++;
    this.#failure = error;
    const wait = Math.min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** (this.#failures - 1));
    this.#retryAt = now + wait;
    this.#waiters = this.#waiters.filter(({ edition, reject }) => {
      if (edition > worker.edition) return true;
      reject(error);
      return false;
    });
    if (this.size.min > 0) setTimeout(() => this.fillUp(performance.now()), wait + 1).unref();
    if (this.ready === 0 && this.#starting === 0) this.#events.failed(error);
  }

  // Ending and replacing workers.

  /** Replaces a worker, which gets no more messages from now on. */
  replace(worker: PoolWorker, now: number): void {
    this.#retire(worker, 'recycled', now);
    this.fillUp(now);
  }

  /** Lets a worker finish what it runs and then ends it; messages that it has not begun go to others. */
  #retire(worker: PoolWorker, cause: EndCause, now: number): void {
    if (worker.phase >= DRAINING) return;
    if (!this.#causes.has(worker)) this.#causes.set(worker, cause);
    if (worker.phase === STARTING) {
      this.#stop(worker, cause, now);
      return;
    }
    worker.drain(now);
    this.#events.retiring(worker);
  }

  /** Ends a worker without letting it finish. */
  #stop(worker: PoolWorker, cause: EndCause, now: number): void {
    if (!this.#causes.has(worker)) this.#causes.set(worker, cause);
    worker.terminate(now);
  }

  afterAnswers(worker: PoolWorker, now: number): void {
    const { recycle } = this.#settings;
    if (worker.messages > 0) this.#failures = 0;
    if (worker.isOutgoing || worker.phase !== READY_PHASE) return;
    if (worker.messages >= recycle.messages || worker.errors >= recycle.errors) this.#recycle(worker, now);
  }

  /** Marks a worker for replacement; it is ended once another one is ready. */
  #recycle(worker: PoolWorker, now: number): void {
    worker.isOutgoing = true;
    this.#causes.set(worker, 'recycled');
    if (this.lasting < Math.max(1, this.size.min)) this.#start(now);
    else this.#retire(worker, 'recycled', now);
  }

  /**
   * A worker became ready: ends those it replaces, oldest first. Workers of the previous edition are ended only when the whole new one is
   * ready.
   */
  #replace(now: number): void {
    const outgoing = this.workers.filter((worker) => worker.isOutgoing && worker.phase === READY_PHASE && this.#causes.has(worker));
    for (const worker of outgoing) {
      if (this.ready <= Math.max(1, this.size.min)) return;
      this.#retire(worker, 'recycled', now);
    }
  }

  /**
   * Starts workers with the current handler files, each replacing an old one once it is ready. Rejects if one does not start; the old ones
   * stay then.
   */
  reload(): Promise<void> {
    const reloaded = this.#lastReload.then(() => this.#reload());
    this.#lastReload = reloaded.catch(() => {});
    return reloaded;
  }

  async #reload(): Promise<void> {
    if (this.#isClosed) throw new ClosedError();
    const now = performance.now();
    const edition = ++this.#edition;
    const old = this.workers.filter(({ phase }) => phase <= READY_PHASE);
    const target = Math.max(1, this.lasting);
    for (const worker of old) worker.isOutgoing = true;
    const isReady = new Promise<void>((resolve, reject) => this.#waiters.push({ edition, resolve, reject }));
    for (let started = 0; started < target; started++) this.#start(now, this.#events.used());
    try {
      await isReady;
    } catch (error) {
      for (const worker of old) worker.isOutgoing = this.#causes.has(worker);
      for (const worker of this.workers) if (worker.edition === edition) this.#retire(worker, 'reloaded', performance.now());
      throw error;
    }
    for (const worker of old) {
      if (worker.phase <= READY_PHASE) this.#retire(worker, 'reloaded', performance.now());
    }
  }

  /** Resolves when the minimum number of workers is ready; rejects if one cannot be started. */
  isReady(): Promise<void> {
    if (this.ready >= Math.max(1, this.size.min)) return Promise.resolve();
    const now = performance.now();
    const failure = this.failure(now);
    if (failure !== null) return Promise.reject(failure);
    if (this.lasting === 0) this.#start(now);
    return new Promise((resolve, reject) => this.#waiters.push({ edition: this.#edition, resolve, reject }));
  }

  #answerWaiters(): void {
    this.#waiters = this.#waiters.filter(({ edition, resolve }) => {
      const editionWorkers = this.workers.filter((worker) => worker.edition >= edition);
      if (editionWorkers.some(({ phase }) => phase === STARTING) || !editionWorkers.some(({ phase }) => phase === READY_PHASE)) return true;
      resolve();
      return false;
    });
  }

  // Timers and limits.

  /** Ends workers whose time is up. Called often while messages are open, and at least every half second. */
  enforce(now: number): void {
    const { killGrace, startMax, concurrency } = this.#settings;
    for (const worker of [...this.workers]) {
      const { phase, since } = worker;
      if (phase === ENDING && now - since >= killGrace) worker.host.kill();
      else if (phase === DRAINING && worker.inFlight === 0 && now - Math.max(since, worker.lastAnswer) >= DRAIN_MAX_MS) this.#stop(worker, 'overran', now);
      else if (phase === STARTING && now - since >= startMax) {
        worker.startFailure ??= { message: `worker ${worker.id} was not ready within startMax (${startMax} ms)` };
        worker.host.kill();
      } else if (phase === READY_PHASE || phase === DRAINING) this.#endOverdue(worker, now, killGrace, concurrency);
    }
    if (now - this.#lastCheck >= CHECK_MS) this.#checkIdleWorkers(now);
  }

  /**
   * Handles a worker that still runs an abandoned message: ends it if it has no other messages; otherwise it gets no more and finishes
   * those first.
   */
  #endOverdue(worker: PoolWorker, now: number, killGrace: number, concurrency: number): void {
    const isOverdue = () => [...worker.abandoned.values()].some(({ since }) => now - since >= killGrace);
    if (worker.abandoned.size === 0 || !isOverdue()) return;
    // Its answer may have arrived meanwhile.
    worker.rung();
    if (!isOverdue()) return;
    if (concurrency === 1 || worker.inFlight === worker.abandoned.size) {
      this.#stop(worker, 'overran', now);
      this.#events.retiring(worker);
      this.fillUp(now);
    } else if (worker.phase === READY_PHASE && !worker.isOutgoing) {
      worker.isOutgoing = true;
      this.#causes.set(worker, 'overran');
      if (this.lasting < Math.max(1, this.size.min)) this.#start(now);
      else this.#retire(worker, 'overran', now);
    }
  }

  #checkIdleWorkers(now: number): void {
    this.#lastCheck = now;
    const { recycle, idleMax } = this.#settings;
    for (const worker of [...this.workers]) {
      if (worker.phase !== READY_PHASE) continue;
      if (now - worker.readyAt > SETTLED_MS) this.#failures = 0;
      if (worker.isOutgoing) continue;
      const isOld = now - worker.started >= recycle.age * (1 + AGE_SPREAD * spread(worker.id));
      if (isOld || (recycle.rss !== Infinity && (worker.host.rss() ?? 0) >= recycle.rss)) this.#recycle(worker, now);
      else if (worker.inFlight === 0 && now - worker.lastAnswer >= idleMax && this.lasting > this.size.min) this.#retire(worker, 'idle', now);
    }
  }

  /** Checks workers regularly while there are any. */
  #watch(): void {
    this.#checkTimer ??= setInterval(() => {
      this.enforce(performance.now());
      if (this.workers.length > 0) return;
      clearInterval(this.#checkTimer!);
      this.#checkTimer = null;
    }, Math.min(CHECK_MS, Math.max(10, this.#settings.killGrace / 2))).unref();
  }

  // Closing the fleet.

  /** Stops starting workers. */
  close(): void {
    this.#isClosed = true;
    for (const { reject } of this.#waiters.splice(0)) reject(new ClosedError('the pool was closed'));
  }

  /** Ends all workers, forcibly after `deadline` milliseconds; resolves when they have ended or cannot be killed. */
  async end(deadline: number): Promise<void> {
    const now = performance.now();
    for (const worker of [...this.workers]) this.#retire(worker, 'closed', now);
    if (this.workers.length === 0) return;
    const until = now + deadline;
    await new Promise<void>((resolve) => {
      const timer = setInterval(() => {
        const time = performance.now();
        if (time >= until) for (const worker of [...this.workers]) this.#stop(worker, 'closed', time);
        this.enforce(time);
        if (time >= until + this.#settings.killGrace + UNKILLABLE_MS) whenEnded();
      }, 5);
      const whenEnded = () => {
        clearInterval(timer);
        resolve();
      };
      this.#whenEmpty.push(whenEnded);
    });
  }

  #resolveIfEmpty(): void {
    if (this.workers.length === 0) for (const resolve of this.#whenEmpty.splice(0)) resolve();
  }
}

/** A number from 0 to 1 that differs from worker to worker. */
function spread(id: number): number {
  return (id * 0.618_034) % 1;
}
