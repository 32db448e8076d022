/**
 * Selects the worker for the next message by how busy each one is, and remembers which worker each affinity key is bound to.
 */
import { availableParallelism } from 'node:os';
import { READY_PHASE, type PoolWorker } from './worker.js';

/**
 * Messages expected to take less than this, in milliseconds, are quick. A worker with less work than this gets more before another is
 * woken.
 */
const PACK_MS = 0.1;
/** For messages that take less than this, in milliseconds, the pool's own thread is as busy as a worker, so one core is reserved for it. */
const SHARE_MS = 0.01;
/** Maximum number of affinity keys that are remembered. */
const AFFINITIES_MAX = 10_000;

export class WorkerSelector {
  readonly #workers: readonly PoolWorker[];
  readonly #hasCredit: boolean;
  readonly #cores = availableParallelism();
  readonly #affinities = new Map<string, PoolWorker>();
  /** The worker that got the last message. */
  #current: PoolWorker | null = null;

  constructor(workers: readonly PoolWorker[], hasCredit: boolean) {
    this.#workers = workers;
    this.#hasCredit = hasCredit;
  }

  /**
   * Returns the worker for the next message, or `null` if it should wait. Prefers idle workers, and among them the one used last, so that
   * the others may retire. Once as many workers are busy as there are cores, a quick message goes into the inbox of a busy one: waking
   * another would only make batches smaller.
   */
  pick(expectedMs: number): PoolWorker | null {
    const current = this.#current;
    if (current !== null && current.loadMs > 0 && current.loadMs < PACK_MS && this.isQuick(expectedMs) && current.hasRoom(expectedMs)) return current;
    let idle: PoolWorker | null = null;
    let busy: PoolWorker | null = null;
    let busyCount = 0;
    for (const worker of this.#workers) {
      if (worker.phase !== READY_PHASE) continue;
      if (worker.inFlight === 0) {
        if (idle === null || isBetter(worker, idle)) idle = worker;
        continue;
      }
      if (!worker.isStalled) busyCount++;
      if ((busy === null || worker.loadMs < busy.loadMs) && worker.hasRoom(expectedMs)) busy = worker;
    }
    if (busyCount < this.#coresFor(expectedMs)) return (this.#current = idle ?? busy);
    return (this.#current = busy ?? (this.isQuick(expectedMs) ? null : idle));
  }

  /** Whether quick messages are handled just as fast if this worker stays idle. */
  isSurplus(worker: PoolWorker, expectedMs: number): boolean {
    if (!this.isQuick(expectedMs) || worker.inFlight > 0) return false;
    let busy = 0;
    for (const other of this.#workers) if (other !== worker && other.inFlight > 0 && other.phase === READY_PHASE && !other.isStalled) busy++;
    return busy >= this.#coresFor(expectedMs);
  }

  /** Whether messages are so short that many of them fit into an inbox. Without credit, none are. */
  isQuick(expectedMs: number): boolean {
    return expectedMs > 0 && expectedMs < PACK_MS && this.#hasCredit;
  }

  #coresFor(expectedMs: number): number {
    return expectedMs > 0 && expectedMs < SHARE_MS ? Math.max(1, this.#cores - 1) : this.#cores;
  }

  /** The worker bound to this key, if any. */
  boundTo(affinity: string): PoolWorker | undefined {
    return this.#affinities.get(affinity);
  }

  /** Binds a key to a worker. */
  bind(affinity: string, worker: PoolWorker): void {
    this.#affinities.delete(affinity);
    this.#affinities.set(affinity, worker);
    if (this.#affinities.size <= AFFINITIES_MAX) return;
    const [oldest] = this.#affinities.keys();
    this.#affinities.delete(oldest!);
  }

  /** Removes a worker that takes no more messages. */
  forget(worker: PoolWorker): void {
    if (this.#current === worker) this.#current = null;
    for (const [key, bound] of this.#affinities) if (bound === worker) this.#affinities.delete(key);
  }
}

/** Of two idle workers, prefers one that is not being replaced, then the one used last. */
function isBetter(worker: PoolWorker, other: PoolWorker): boolean {
  if (worker.isOutgoing !== other.isOutgoing) return other.isOutgoing;
  return worker.lastAnswer > other.lastAnswer;
}
