/**
 * Assigns messages to workers: the bounded queue, credit, deadlines, retries after a worker has ended, and when to start more workers.
 *
 * Invariants: every accepted message is settled exactly once or aborted by its caller; a message never waits while a worker that may run
 * it has room; the queue stays within its bounds.
 */
import {
  AbortedError,
  ClosedError,
  CrashedError,
  DeadlineError,
  HandlerError,
  NotSendableError,
  type DeadlinePhase,
  type PoolError,
} from './errors.js';
import { Backlog, type BacklogEvents } from './backlog.js';
import { WorkerSelector } from './selector.js';
import { Fleet, type FleetEvents } from './fleet.js';
import { Histogram } from './histogram.js';
import type { Outcome } from './incoming.js';
import { ENDING, REASON_GONE, REASON_OVERDUE, READY_PHASE, type PoolWorker, type PoolWorkerEvents } from './worker.js';
import type { RetryCause, Settings, Size } from './options.js';
import { Queue } from './queue.js';
import { HELD, QUEUED, SENT, SETTLED, expectedOf, type Task } from './task.js';
import type { MessageType } from './types.js';
import { Signals } from './signals.js';
import { reachedLimit } from './expiry.js';

/** How often deadlines are checked while messages are open, in milliseconds. */
const TICK_MS = 16;
/** A handler that runs for this many milliseconds stalls its worker: nothing is left waiting behind it. */
const STALLED_MS = 10;
/** An idle worker steals from a worker that has more than this much work, in milliseconds. */
const SPARE_MS = 0.5;
/** Longest delay before a retry, in milliseconds. */
const BACKOFF_MAX_MS = 60_000;

/** Counts of messages by how they ended, since the pool was created. */
export interface Counts {
  accepted: number;
  answered: number;
  /** The handler threw. */
  failed: number;
  crashed: number;
  overdue: number;
  aborted: number;
  /** Rejected because the pool was closed or could not start. */
  dropped: number;
  /** Not accepted in the first place. */
  refused: number;
  /** Retries: runs of a message beyond its first. */
  retried: number;
}

/** Events that the dispatcher reports to its pool. */
export interface DispatcherEvents extends BacklogEvents, Omit<FleetEvents, 'ready' | 'used' | 'retiring' | 'exited'> {
  /** No message is open any more. */
  idle(): void;
  /** A message failed its last attempt. */
  dead(task: Task, error: PoolError): void;
}

export class Dispatcher implements PoolWorkerEvents {
  readonly fleet: Fleet;
  /** Messages that no worker has. */
  readonly backlog: Backlog;
  readonly counts: Counts = { accepted: 0, answered: 0, failed: 0, crashed: 0, overdue: 0, aborted: 0, dropped: 0, refused: 0, retried: 0 };
  readonly wait = new Histogram();
  readonly run = new Histogram();
  /** Messages that are accepted and not settled. */
  open = 0;
  isClosed = false;
  /** Whether failed messages may be retried. */
  mayRetry = true;
  readonly #settings: Settings;
  readonly #events: DispatcherEvents;
  readonly #queue = new Queue();
  readonly #signals = new Signals((task, reason) => this.abort(task, reason));
  readonly types = new Map<string, MessageType>();
  /** Messages waiting for the delay before their retry. */
  readonly #backingOff = new Set<Task>();
  readonly #selector: WorkerSelector;
  #dirty: PoolWorker[] = [];
  #isFlushDue = false;
  /** Checks deadlines and keeps the program alive while messages are open; stops itself when none are. */
  #tick: NodeJS.Timeout | null = null;
  readonly #flush = (): void => this.#flushAll();
  /** Set until the end of the microtasks that follow a batch of replies. */
  #isAnswering = false;
  readonly #endAnswering = (): void => {
    this.#isAnswering = false;
  };

  constructor(settings: Settings, size: Size, events: DispatcherEvents) {
    this.#settings = settings;
    this.backlog = new Backlog(settings, size, events);
    this.#events = events;
    this.fleet = new Fleet(settings, size, this, {
      started: (worker) => events.started(worker),
      readied: (worker) => events.readied(worker),
      stopped: (worker, cause) => events.stopped(worker, cause),
      log: (worker, line) => events.log(worker, line),
      line: (worker, text) => events.line(worker, text),
      used: () => [...this.types.values()].filter(({ answered }) => answered > 0).map(({ name }) => name),
      ready: (worker) => this.#fill(worker, performance.now()),
      retiring: (worker) => this.#requeueBeforeExit(worker),
      exited: (worker, wasBegun) => this.#requeueAfterExit(worker, wasBegun),
      failed: (error) => {
        this.dropQueued(error);
        events.failed(error);
      },
    });
    this.#selector = new WorkerSelector(this.fleet.workers, settings.credit > 0);
  }

  /** @throws RangeError for an invalid size. */
  resize(size: Partial<Size>): void {
    this.fleet.resize({ ...this.fleet.size, ...size }, performance.now());
    this.backlog.resize(this.fleet.size);
  }

  // Accepting messages.

  /** Accepts a message, or returns the reason for refusing it. */
  submit(task: Task): PoolError | null {
    const { type, submitted: now } = task;
    if (this.isClosed) return this.#refuse(new ClosedError());
    let worker: PoolWorker | null = null;
    if (this.#queue.length === 0 && type.running < type.limit && task.options.affinity === undefined) worker = this.#selector.pick(expectedOf(task));
    if (worker === null) {
      const refusal = this.#refusal(task, now);
      if (refusal !== null) return this.#refuse(refusal);
    }
    try {
      task.transfer?.take();
    } catch (error) {
      return this.#refuse(new NotSendableError((error as Error).message, error));
    }
    this.counts.accepted++;
    if (this.open++ === 0) this.#keepAlive();
    const { signal } = task.options;
    if (signal !== undefined) this.#signals.watch(task, signal);
    if (worker !== null) {
      this.#send(worker, task, now);
      return null;
    }
    this.#enqueue(task);
    if (task.options.affinity !== undefined) this.#assignQueued(now);
    this.fleet.grow(this.#queue.length, now);
    return null;
  }

  /** Accepts a message for this worker only; it goes ahead of messages for any worker. */
  submitTo(worker: PoolWorker, task: Task): void {
    this.counts.accepted++;
    if (this.open++ === 0) this.#keepAlive();
    task.only = worker;
    this.#queueFor(task, worker);
    this.#fill(worker, task.submitted);
  }

  /** Queues a message for one worker that has no room yet. */
  #queueFor(task: Task, worker: PoolWorker): void {
    task.state = HELD;
    this.backlog.enter(task);
    worker.ownTasks.push(task);
  }

  #refuse(error: PoolError): PoolError {
    this.counts.refused++;
    return error;
  }

  #refusal(task: Task, now: number): PoolError | null {
    return this.fleet.failure(now) ?? this.backlog.refusal(task, this.fleet.coming * this.#settings.concurrency);
  }

  #enqueue(task: Task): void {
    task.state = QUEUED;
    this.backlog.enter(task);
    this.#queue.push(task);
  }

  /** Queues a message again, ahead of those that came later. */
  #putBack(task: Task): void {
    if (task.only !== null) {
      this.#queueFor(task, task.only);
      return;
    }
    task.state = QUEUED;
    this.backlog.enter(task);
    this.#queue.putBack(task);
  }

  // Assigning messages to workers.

  #send(worker: PoolWorker, task: Task, now: number): void {
    task.type.running++;
    const { deadlines: { total, run }, onSent } = task.options;
    const limit = Math.min(run, task.submitted + total - now);
    worker.send(task, now, limit === Infinity ? 0 : Math.max(1, Math.min(Math.ceil(limit), 0xffff_ffff)));
    onSent?.(task);
  }

  /** Gives a worker messages until it has no room. */
  #fill(worker: PoolWorker, now: number): void {
    for (let task; (task = worker.ownTasks.peek()) !== undefined && worker.hasRoom(expectedOf(task)); ) {
      worker.ownTasks.shift();
      if (task.type.running >= task.type.limit) {
        hold(task);
        continue;
      }
      this.backlog.leave(task);
      this.#send(worker, task, now);
    }
    for (;;) {
      const first = this.#queue.peek();
      if (first === undefined || !worker.hasRoom(expectedOf(first)) || this.#selector.isSurplus(worker, expectedOf(first))) break;
      this.#assign(worker, this.#queue.shift()!, now);
    }
    if (worker.inFlight === 0 && this.#queue.length === 0 && worker.phase === READY_PHASE) this.#steal(worker, now);
  }

  /** Gives the next message to the worker, unless the message has to wait for its type's limit or for the worker bound to its key. */
  #assign(worker: PoolWorker, task: Task, now: number): void {
    const { type, options: { affinity } } = task;
    if (type.running >= type.limit) {
      hold(task);
      return;
    }
    if (affinity !== undefined) {
      const bound = this.#selector.boundTo(affinity);
      if (bound !== undefined && bound !== worker && bound.phase === READY_PHASE) {
        if (bound.hasRoom(expectedOf(task))) {
          this.backlog.leave(task);
          this.#send(bound, task, now);
        } else {
          task.state = HELD;
          bound.ownTasks.push(task);
        }
        return;
      }
      this.#selector.bind(affinity, worker);
    }
    this.backlog.leave(task);
    this.#send(worker, task, now);
  }

  #expectedNext(): number {
    const next = this.#queue.peek();
    return next === undefined ? 0 : expectedOf(next);
  }

  /** Gives queued messages to all workers with room. */
  #assignQueued(now: number): void {
    for (let worker; this.#queue.length > 0 && (worker = this.#selector.pick(this.#expectedNext())) !== null; ) {
      const before = this.#queue.length;
      this.#assign(worker, this.#queue.shift()!, now);
      if (this.#queue.length >= before) return;
    }
  }

  /** Moves messages from the inbox of a busy worker to an idle one. */
  #steal(idle: PoolWorker, now: number): void {
    for (const worker of this.fleet.workers) {
      if (worker === idle || worker.inFlight <= this.#settings.concurrency) continue;
      if (!worker.isStalled && worker.loadMs < SPARE_MS) continue;
      this.#takeBack(worker);
      let share = worker.isStalled ? Infinity : Math.ceil(this.#queue.length / 2);
      for (let task; share-- > 0 && idle.hasRoom(this.#expectedNext()) && (task = this.#queue.shift()) !== undefined; ) this.#assign(idle, task, now);
      if (this.#queue.length > 0 && !worker.isStalled) this.#fill(worker, now);
      return;
    }
  }

  #takeBack(worker: PoolWorker): void {
    const back = worker.takeBack();
    for (let index = back.length - 1; index >= 0; index--) {
      const task = back[index]!;
      task.type.running--;
      this.#putBack(task);
    }
  }

  // Outcomes of messages.

  answered(worker: PoolWorker, task: Task, outcome: Outcome, micros: number): void {
    const { type } = task;
    this.#endRun(type);
    type.learn(micros / 1000);
    if ('thrown' in outcome) {
      type.failed++;
      if (!this.#retry(task, 'error')) this.#fail(task, 'failed', new HandlerError(outcome.thrown, outcome.status));
      return;
    }
    if ('broken' in outcome) {
      type.failed++;
      this.#fail(task, 'failed', new HandlerError({ name: 'Error', message: outcome.broken, stack: null, members: {} }, 500));
      return;
    }
    const waited = Math.max(0, (worker.lastAnswer - task.submitted) * 1000 - micros);
    type.answered++;
    type.run.add(micros);
    type.wait.add(waited);
    this.run.add(micros);
    this.wait.add(waited);
    this.counts.answered++;
    this.#settle(task);
    task.resolve(outcome.value);
  }

  /** Counts a message of the type that no longer runs. */
  #endRun(type: MessageType): void {
    type.running--;
    this.#releaseHeld(type);
  }

  /** Requeues a message that was held back by the concurrency limit of its type. */
  #releaseHeld(type: MessageType): void {
    const held = type.held.shift();
    if (held === undefined) return;
    held.state = QUEUED;
    this.#queue.putBack(held);
  }

  drained(worker: PoolWorker): void {
    const now = performance.now();
    worker.isStalled = false;
    this.#fill(worker, now);
    // Other workers may have stayed idle while only quick messages were queued.
    const first = this.#queue.length === 0 ? undefined : this.#queue.peek();
    if (first !== undefined && !this.#selector.isQuick(first.type.expectedMs)) this.#assignQueued(now);
    this.fleet.afterAnswers(worker, now);
    this.#flushAll();
    this.#isAnswering = true;
    queueMicrotask(this.#endAnswering);
  }

  #fail(task: Task, how: 'failed' | 'crashed' | 'overdue' | 'aborted' | 'dropped', error: PoolError): void {
    this.counts[how]++;
    this.#settle(task);
    if (task.options.attempts > 1 && (how === 'failed' || how === 'crashed' || how === 'overdue')) this.#events.dead(task, error);
    task.reject(error);
  }

  #settle(task: Task): void {
    task.state = SETTLED;
    if (task.options.signal !== undefined) this.#signals.unwatch(task, task.options.signal);
    if (--this.open === 0) this.#becomeIdle();
  }

  /** Retries a message if its limits allow; returns whether it will run again. */
  #retry(task: Task, cause: RetryCause): boolean {
    const { retry } = this.#settings;
    if (task.transfer?.isSpent === true || task.attempt >= task.options.attempts || !retry.after.includes(cause) || !this.mayRetry) return false;
    task.attempt++;
    this.counts.retried++;
    const now = performance.now();
    task.waitsSince = now;
    const longest = Math.min(BACKOFF_MAX_MS, retry.backoff * 2 ** (task.attempt - 2));
    if (longest === 0) {
      this.#putBack(task);
      this.#assignQueued(now);
      this.fleet.grow(this.#queue.length, now);
      return true;
    }
    task.state = HELD;
    this.backlog.enter(task);
    this.#backingOff.add(task);
    setTimeout(() => {
      this.#backingOff.delete(task);
      if (task.state !== HELD) return;
      task.state = QUEUED;
      this.#queue.putBack(task);
      this.#assignQueued(performance.now());
      this.fleet.grow(this.#queue.length, performance.now());
    }, longest / 2 + (Math.random() * longest) / 2).unref();
    return true;
  }

  // Failures and aborts.

  /** Aborts a message at its caller's request; does nothing if it is settled. */
  abort(task: Task, reason: unknown): void {
    if (task.state === SETTLED) return;
    this.#withdraw(task, REASON_GONE);
    this.#fail(task, 'aborted', new AbortedError(reason));
  }

  /** Removes a message from wherever it is. */
  #withdraw(task: Task, reason: number): void {
    if (task.state === SENT) {
      const worker = task.assignee!;
      // If the worker has not begun it, there is nothing to stop.
      if (worker.host.page?.revoke(task.slot, task.number) === true) worker.release(task);
      else worker.abandon(task, reason, performance.now());
      this.#endRun(task.type);
    } else if (task.state !== SETTLED) {
      this.backlog.leave(task);
      const wasQueued = task.state === QUEUED;
      task.state = SETTLED;
      if (!wasQueued) return;
      this.#queue.forget(task);
      this.#releaseHeld(task.type);
    }
  }

  /** Handles a message whose deadline has passed. */
  #expire(task: Task, phase: DeadlinePhase): void {
    this.#withdraw(task, REASON_OVERDUE);
    if (phase === 'run' && this.#retry(task, 'deadline')) return;
    this.#fail(task, 'overdue', new DeadlineError(phase, task.options.deadlines[phase]));
  }

  /** A worker is about to end: it finishes what it has begun, and other workers get the rest. */
  #requeueBeforeExit(worker: PoolWorker): void {
    this.#takeBack(worker);
    this.#unbind(worker);
  }

  /** Requeues the messages that were waiting for this worker alone. */
  #unbind(worker: PoolWorker): void {
    for (const task of worker.ownTasks.takeAll().reverse()) {
      if (task.only === null) {
        task.state = QUEUED;
        this.#queue.putBack(task);
      } else {
        this.#withdraw(task, REASON_GONE);
        this.#fail(task, 'crashed', new CrashedError(worker.end));
      }
    }
    this.#selector.forget(worker);
    const now = performance.now();
    this.#assignQueued(now);
    this.fleet.grow(this.#queue.length, now);
    this.#flushAll();
  }

  /** A worker has ended: messages that it had begun are retried or fail, the rest go to other workers. */
  #requeueAfterExit(worker: PoolWorker, wasBegun: (task: Task) => boolean): void {
    const end = worker.end;
    const lost: Task[] = [];
    const back: Task[] = [];
    for (const task of worker.tasks()) (wasBegun(task) || task.transfer?.isSpent === true ? lost : back).push(task);
    back.sort((a, b) => b.number - a.number);
    for (const task of back) {
      worker.release(task);
      task.type.running--;
      this.#putBack(task);
    }
    for (const task of lost) {
      worker.release(task);
      this.#endRun(task.type);
      if (!this.#retry(task, 'crash')) this.#fail(task, 'crashed', new CrashedError(end));
    }
    this.#unbind(worker);
  }

  /** Rejects all waiting messages, because no worker can be started. */
  dropQueued(error: PoolError): void {
    for (const task of this.#waitingTasks()) {
      this.#withdraw(task, REASON_GONE);
      this.#fail(task, 'dropped', error);
    }
  }

  /** Rejects all messages, including running ones. */
  dropAll(error: PoolError): void {
    this.dropQueued(error);
    for (const worker of this.fleet.workers) {
      for (const task of [...worker.tasks()]) {
        this.#withdraw(task, REASON_GONE);
        this.#fail(task, 'dropped', error);
      }
    }
  }

  *#waitingTasks(): Generator<Task> {
    for (let task; (task = this.#queue.peek()) !== undefined; ) yield task;
    const aside = [...this.#backingOff];
    for (const { held } of this.types.values()) for (const task of held.takeAll()) aside.push(task);
    for (const { ownTasks } of this.fleet.workers) for (const task of ownTasks.takeAll()) aside.push(task);
    for (const task of aside) if (task.state === HELD) yield task;
  }

  // Other events of workers.

  ready(worker: PoolWorker): void {
    this.fleet.handleReady(worker);
    this.#flushAll();
  }

  ended(worker: PoolWorker): void {
    this.fleet.handleEnd(worker);
  }

  log(worker: PoolWorker, line: unknown): void {
    this.#events.log(worker, line);
  }

  line(worker: PoolWorker, text: string): void {
    this.#events.line(worker, text);
  }

  // Timers and deadlines.

  #keepAlive(): void {
    if (this.#tick === null) this.#tick = setInterval(() => this.#checkTimers(performance.now()), TICK_MS);
    else this.#tick.ref();
  }

  #becomeIdle(): void {
    this.#tick?.unref();
    this.#events.idle();
  }

  /** Checks everything that depends on time. */
  #checkTimers(now: number): void {
    if (this.open === 0) {
      clearInterval(this.#tick!);
      this.#tick = null;
    }
    for (const task of this.backlog.expiry.takeExpired(now)) this.#expire(task, reachedLimit(task));
    for (const worker of this.fleet.workers) this.#checkWorker(worker, now);
    if (this.backlog.count > 0) {
      this.#assignQueued(now);
      const oldest = this.#queue.oldest();
      if (oldest !== undefined) this.fleet.grow(this.#queue.length, now, now - oldest.waitsSince > STALLED_MS);
    }
    this.fleet.enforce(now);
    this.#flushAll();
  }

  #checkWorker(worker: PoolWorker, now: number): void {
    if (worker.inFlight === 0) return;
    let oldest = Infinity;
    for (const task of [...worker.tasks()]) {
      if (task.began === 0) {
        if (!worker.hasBegun(task)) continue;
        task.began = this.#settings.concurrency === 1 ? Math.max(task.sent, worker.lastAnswer) : task.sent;
      }
      oldest = Math.min(oldest, task.began);
      const { run, total } = task.options.deadlines;
      if (now - task.submitted >= total) this.#expire(task, 'total');
      else if (now - task.began >= run) this.#expire(task, 'run');
    }
    if (now - oldest < STALLED_MS || worker.phase >= ENDING) return;
    worker.isStalled = true;
    if (worker.inFlight > this.#settings.concurrency) {
      this.#takeBack(worker);
      this.#assignQueued(now);
    }
  }

  // Writing to workers.

  dirty(worker: PoolWorker): void {
    this.#dirty.push(worker);
    // A caller that sends one message at a time waits for this one, so flush soon. Otherwise batch all messages of this turn of the event
    // loop into one write.
    if (this.#isAnswering && worker.inFlight === 1) {
      queueMicrotask(this.#flush);
      return;
    }
    if (this.#isFlushDue) return;
    this.#isFlushDue = true;
    setImmediate(this.#flush);
  }

  #flushAll(): void {
    this.#isFlushDue = false;
    if (this.#dirty.length === 0) return;
    const dirty = this.#dirty;
    this.#dirty = [];
    for (const worker of dirty) worker.flush();
  }
}

/** Holds a message back because its type runs at its limit; a message that was held before keeps its place in line. */
function hold(task: Task): void {
  const { held } = task.type;
  const first = held.peek();
  task.state = HELD;
  if (first !== undefined && task.submitted < first.submitted) held.unshift(task);
  else held.push(task);
}
