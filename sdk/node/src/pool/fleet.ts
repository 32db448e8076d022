/**
 * The workers of a pool: how many there are, when one is started, replaced and ended.
 *
 * A worker that ends after it was ready is replaced at once; starts that fail back off, and meanwhile nothing is accepted that only a worker could run.
 */
import { DRAINING, ENDED, ENDING, Member, READY_PHASE, STARTING, type MemberEvents } from './member.js';
import { ClosedError, StartFailedError, howItEnded } from './errors.js';
import { settleSize, type Settings, type Size } from './options.js';
import type { Task } from './task.js';

/** Wait after the first start that fails; it doubles with each further one, up to the longest. */
const BACKOFF_MS = 100;
const BACKOFF_MAX_MS = 10_000;
/** A worker that ends sooner after its start, without an answer, counts as one that could not start. */
const SETTLED_MS = 1_000;
/** A worker that drains has so long for its stop hooks; what it runs has deadlines of its own. */
const DRAIN_MAX_MS = 30_000;
/** A worker that was killed and does not end, as a thread in native code, is waited for no longer than this. */
const UNKILLABLE_MS = 2_000;
/** How often workers are looked at that nobody waits for. */
const ROUND_MS = 500;
/** The part of `recycle.age` by which workers grow older than it, each by another one. */
const AGE_SPREAD = 0.1;

/** Why a worker has ended. */
export type EndCause = 'crashed' | 'overran' | 'start_failed' | 'idle' | 'recycled' | 'reloaded' | 'resized' | 'closed';

/** What the fleet tells. */
export interface FleetEvents {
  started(member: Member): void;
  readied(member: Member): void;
  stopped(member: Member, cause: EndCause): void;
  log(member: Member, line: unknown): void;
  line(member: Member, text: string): void;
  /** No worker can be had, and none is on its way. */
  failed(error: StartFailedError): void;
  /** Types of messages whose handlers have answered: a new edition has them, too. */
  used(): string[];
  /** A worker takes messages from now on. */
  ready(member: Member): void;
  /** A worker takes no more messages; what it has not begun is for others. */
  leaving(member: Member): void;
  /** A worker has ended, with what it had. */
  gone(member: Member, wasBegun: (task: Task) => boolean): void;
}

export class Fleet {
  readonly members: Member[] = [];
  size: Size;
  readonly #settings: Settings;
  readonly #memberEvents: MemberEvents;
  readonly #events: FleetEvents;
  #ids = 0;
  #generation = 0;
  #edition = 1;
  /** Why each worker ends that is told to. */
  readonly #causes = new WeakMap<Member, EndCause>();
  /** Starts that failed since one last succeeded. */
  #failures = 0;
  #failure: StartFailedError | null = null;
  #retryAt = 0;
  #isClosed = false;
  #round: NodeJS.Timeout | null = null;
  #lastRound = 0;
  /** What waits for the last worker to end. */
  #whenEmpty: (() => void)[] = [];
  /** The last reload, however it ends. */
  #reloaded: Promise<unknown> = Promise.resolve();
  /** What waits for the number of workers of the current edition that are ready. */
  #waiters: { readonly edition: number; readonly resolve: () => void; readonly reject: (error: Error) => void }[] = [];

  constructor(settings: Settings, size: Size, memberEvents: MemberEvents, events: FleetEvents) {
    this.#settings = settings;
    this.size = size;
    this.#memberEvents = memberEvents;
    this.#events = events;
  }

  // How many there are.

  /** Workers that are ready or will be, and stay. */
  get lasting(): number {
    let count = 0;
    for (const member of this.members) if (member.phase <= READY_PHASE && !member.isOutgoing) count++;
    return count;
  }

  /** Workers that are being started, or may be. */
  get coming(): number {
    let ready = 0;
    for (const member of this.members) if (member.phase === READY_PHASE && !member.isOutgoing) ready++;
    return Math.max(0, this.size.max - ready);
  }

  get #starting(): number {
    let count = 0;
    for (const member of this.members) if (member.phase === STARTING) count++;
    return count;
  }

  get ready(): number {
    let count = 0;
    for (const member of this.members) if (member.phase === READY_PHASE) count++;
    return count;
  }

  /** Why no worker can be had; `null` while one can. */
  failure(now: number): StartFailedError | null {
    if (this.#failure === null || now >= this.#retryAt || this.ready > 0 || this.#starting > 0) return null;
    return this.#failure;
  }

  /** Starts workers until there are as many as there are to be at least. */
  fillUp(now: number): void {
    if (this.#isClosed) return;
    this.#watch();
    if (now < this.#retryAt) return;
    while (this.lasting < this.size.min) this.#start(now);
  }

  /** So many messages wait: starts workers for them where that helps. */
  grow(waiting: number, now: number, isSlow = false): void {
    if (this.#isClosed || now < this.#retryAt) return;
    // As long as those that are ready get through it quickly, more would only share it.
    if (this.ready > 0 && !isSlow) return;
    const wanted = Math.min(this.size.max, this.ready + Math.ceil(waiting / this.#settings.concurrency));
    while (this.lasting < wanted) this.#start(now);
  }

  /** @throws RangeError for a size that cannot be. */
  resize(size: { min?: number; max?: number }, now: number): void {
    this.size = settleSize(size);
    const surplus = this.lasting - this.size.max;
    // The idle ones first, then the youngest.
    const order = this.members.filter(({ phase, isOutgoing }) => phase <= READY_PHASE && !isOutgoing).sort((a, b) => a.inFlight - b.inFlight || b.id - a.id);
    for (const member of order.slice(0, Math.max(0, surplus))) this.#retire(member, 'resized', now);
    this.fillUp(now);
  }

  /** Starts a worker that is not ready before it has loaded the handlers of these types. */
  #start(now: number, load: readonly string[] = []): void {
    this.#generation = (this.#generation % 0xffff) + 1;
    const member = new Member(++this.#ids, this.#generation, this.#edition, this.#settings, this.#memberEvents, now, load);
    this.members.push(member);
    this.#watch();
    this.#events.started(member);
  }

  // Their news.

  becomesReady(member: Member): void {
    const now = performance.now();
    member.move(READY_PHASE, now);
    member.readyAt = member.lastAnswer = now;
    this.#failure = null;
    this.#retryAt = 0;
    this.#events.readied(member);
    this.#replace(now);
    this.#answerWaiters();
    this.#events.ready(member);
  }

  ends(member: Member): void {
    const now = performance.now();
    const wasReady = member.readyAt > 0;
    const { phase } = member;
    const hasSettled = wasReady && (member.messages > 0 || now - member.readyAt > SETTLED_MS || member.inFlight > 0);
    const cause = this.#causes.get(member) ?? (wasReady ? 'crashed' : 'start_failed');
    member.move(ENDED, now);
    this.members.splice(this.members.indexOf(member), 1);
    // Before anybody looks for another worker: one that cannot start is not started again at once.
    if (phase <= READY_PHASE && !hasSettled && !this.#causes.has(member)) this.#failedStart(member, now);
    this.#events.gone(member, (task) => wasReady && member.hasBegun(task));
    this.#events.stopped(member, cause);
    this.#settle();
    if (!this.#isClosed) this.fillUp(now);
  }

  #failedStart(member: Member, now: number): void {
    const { message, stack } = member.startFailure ?? {};
    const end = member.end;
    const reason = message ?? `worker ${member.id} ended before it was ready: ${howItEnded(end)}`;
    const cause = message === undefined ? undefined : Object.assign(new Error(message), stack === undefined ? {} : { stack });
    const error = new StartFailedError(reason, end, cause);
    this.#failures++;
    this.#failure = error;
    const wait = Math.min(BACKOFF_MAX_MS, BACKOFF_MS * 2 ** (this.#failures - 1));
    this.#retryAt = now + wait;
    this.#waiters = this.#waiters.filter(({ edition, reject }) => {
      if (edition > member.edition) return true;
      reject(error);
      return false;
    });
    if (this.size.min > 0) setTimeout(() => this.fillUp(performance.now()), wait + 1).unref();
    if (this.ready === 0 && this.#starting === 0) this.#events.failed(error);
  }

  // When they end.

  /** Has another worker take the place of one, which gets no more from now on. */
  replace(member: Member, now: number): void {
    this.#retire(member, 'recycled', now);
    this.fillUp(now);
  }

  /** Has a worker finish what it runs and end, whatever it does; what it has not begun goes to others. */
  #retire(member: Member, cause: EndCause, now: number): void {
    if (member.phase >= DRAINING) return;
    if (!this.#causes.has(member)) this.#causes.set(member, cause);
    if (member.phase === STARTING) {
      this.#stop(member, cause, now);
      return;
    }
    member.drain(now);
    this.#events.leaving(member);
  }

  /** Ends a worker that cannot be waited for. */
  #stop(member: Member, cause: EndCause, now: number): void {
    if (!this.#causes.has(member)) this.#causes.set(member, cause);
    member.terminate(now);
  }

  afterAnswers(member: Member, now: number): void {
    const { recycle } = this.#settings;
    if (member.messages > 0) this.#failures = 0;
    if (member.isOutgoing || member.phase !== READY_PHASE) return;
    if (member.messages >= recycle.messages || member.errors >= recycle.errors) this.#recycle(member, now);
  }

  /** A worker is to go once another is ready in its place. */
  #recycle(member: Member, now: number): void {
    member.isOutgoing = true;
    this.#causes.set(member, 'recycled');
    if (this.lasting < Math.max(1, this.size.min)) this.#start(now);
    else this.#retire(member, 'recycled', now);
  }

  /** One more is ready: those that were to be replaced go, the oldest first. Those of the last edition go when the whole new one is ready. */
  #replace(now: number): void {
    const outgoing = this.members.filter((member) => member.isOutgoing && member.phase === READY_PHASE && this.#causes.has(member));
    for (const member of outgoing) {
      if (this.ready <= Math.max(1, this.size.min)) return;
      this.#retire(member, 'recycled', now);
    }
  }

  /** Starts workers with handlers as they are now; each takes the place of another once it is ready. Rejects when one does not start: those there are stay then. */
  reload(): Promise<void> {
    const reloaded = this.#reloaded.then(() => this.#reload());
    this.#reloaded = reloaded.catch(() => {});
    return reloaded;
  }

  async #reload(): Promise<void> {
    if (this.#isClosed) throw new ClosedError();
    const now = performance.now();
    const edition = ++this.#edition;
    const old = this.members.filter(({ phase }) => phase <= READY_PHASE);
    const wanted = Math.max(1, this.lasting);
    for (const member of old) member.isOutgoing = true;
    const isReady = new Promise<void>((resolve, reject) => this.#waiters.push({ edition, resolve, reject }));
    for (let started = 0; started < wanted; started++) this.#start(now, this.#events.used());
    try {
      await isReady;
    } catch (error) {
      for (const member of old) member.isOutgoing = this.#causes.has(member);
      for (const member of this.members) if (member.edition === edition) this.#retire(member, 'reloaded', performance.now());
      throw error;
    }
    for (const member of old) {
      if (member.phase <= READY_PHASE) this.#retire(member, 'reloaded', performance.now());
    }
  }

  /** Resolves when as many workers are ready as there are to be at least; rejects when one cannot start. */
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
      const of = this.members.filter((member) => member.edition >= edition);
      if (of.some(({ phase }) => phase === STARTING) || !of.some(({ phase }) => phase === READY_PHASE)) return true;
      resolve();
      return false;
    });
  }

  // Time.

  /** Ends what has to end by now: called often while anything is under way, and every half second at least. */
  enforce(now: number): void {
    const { killGrace, startMax, concurrency } = this.#settings;
    for (const member of [...this.members]) {
      const { phase, since } = member;
      if (phase === ENDING && now - since >= killGrace) member.host.kill();
      else if (phase === DRAINING && member.inFlight === 0 && now - Math.max(since, member.lastAnswer) >= DRAIN_MAX_MS) this.#stop(member, 'overran', now);
      else if (phase === STARTING && now - since >= startMax) {
        member.startFailure ??= { message: `worker ${member.id} was not ready within startMax (${startMax} ms)` };
        member.host.kill();
      } else if (phase === READY_PHASE || phase === DRAINING) this.#endUnresponsive(member, now, killGrace, concurrency);
    }
    if (now - this.#lastRound >= ROUND_MS) this.#goRound(now);
  }

  /** A worker still runs what was given up: with nothing else in it, it is ended; with other messages, it gets no more and those are finished first. */
  #endUnresponsive(member: Member, now: number, killGrace: number, concurrency: number): void {
    const isOverdue = () => [...member.abandoned.values()].some(({ since }) => now - since >= killGrace);
    if (member.abandoned.size === 0 || !isOverdue()) return;
    // Its answer may have come by now.
    member.rung();
    if (!isOverdue()) return;
    if (concurrency === 1 || member.inFlight === member.abandoned.size) {
      this.#stop(member, 'overran', now);
      this.#events.leaving(member);
      this.fillUp(now);
    } else if (member.phase === READY_PHASE && !member.isOutgoing) {
      member.isOutgoing = true;
      this.#causes.set(member, 'overran');
      if (this.lasting < Math.max(1, this.size.min)) this.#start(now);
      else this.#retire(member, 'overran', now);
    }
  }

  #goRound(now: number): void {
    this.#lastRound = now;
    const { recycle, idleMax } = this.#settings;
    for (const member of [...this.members]) {
      if (member.phase !== READY_PHASE) continue;
      if (now - member.readyAt > SETTLED_MS) this.#failures = 0;
      if (member.isOutgoing) continue;
      const isOld = now - member.started >= recycle.age * (1 + AGE_SPREAD * spread(member.id));
      if (isOld || (recycle.rss !== Infinity && (member.host.rss() ?? 0) >= recycle.rss)) this.#recycle(member, now);
      else if (member.inFlight === 0 && now - member.lastAnswer >= idleMax && this.lasting > this.size.min) this.#retire(member, 'idle', now);
    }
  }

  /** Looks at workers now and then, as long as there are any. */
  #watch(): void {
    this.#round ??= setInterval(() => {
      this.enforce(performance.now());
      if (this.members.length > 0) return;
      clearInterval(this.#round!);
      this.#round = null;
    }, Math.min(ROUND_MS, Math.max(10, this.#settings.killGrace / 2))).unref();
  }

  // The end.

  /** No worker is started any more. */
  close(): void {
    this.#isClosed = true;
    for (const { reject } of this.#waiters.splice(0)) reject(new ClosedError('the pool was closed'));
  }

  /** Has all workers end, by force after so many milliseconds; resolves when they have, or cannot be made to. */
  async end(deadline: number): Promise<void> {
    const now = performance.now();
    for (const member of [...this.members]) this.#retire(member, 'closed', now);
    if (this.members.length === 0) return;
    const until = now + deadline;
    await new Promise<void>((resolve) => {
      const timer = setInterval(() => {
        const time = performance.now();
        if (time >= until) for (const member of [...this.members]) this.#stop(member, 'closed', time);
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

  #settle(): void {
    if (this.members.length === 0) for (const resolve of this.#whenEmpty.splice(0)) resolve();
  }
}

/** A number from 0 to 1 that differs from worker to worker, so that they do not grow old together. */
function spread(id: number): number {
  return (id * 0.618_034) % 1;
}
