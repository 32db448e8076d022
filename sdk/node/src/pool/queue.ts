/** Waiting messages, ordered by priority and then by age. */
import { Ring } from './ring.js';
import { QUEUED, type Task } from './task.js';

/** Every AGEING messages, the oldest of all is taken whatever its priority, so that none starves. */
const AGEING = 8;

export class Queue {
  /** One ring for each priority in use, highest first. */
  readonly #levels: { readonly priority: number; readonly ring: Ring }[] = [];
  #defaultRing: Ring | null = null;
  #count = 0;
  #turn = 0;

  /** Tasks that wait. */
  get length(): number {
    return this.#count;
  }

  push(task: Task): void {
    this.#count++;
    this.#ring(task.options.priority).push(task);
  }

  /** Puts a task at the front of its priority, because it has waited before. */
  putBack(task: Task): void {
    this.#count++;
    this.#ring(task.options.priority).unshift(task);
  }

  shift(): Task | undefined {
    if (this.#count === 0) return undefined;
    const task = this.#next()?.shift();
    if (task !== undefined) this.#count--;
    return task;
  }

  /** The next task, which stays in the queue. */
  peek(): Task | undefined {
    for (const { ring } of this.#levels) {
      const task = ring.peek();
      if (task !== undefined) return task;
    }
    return undefined;
  }

  /** Counts a task that left the queue by a change of its state. */
  forget(task: Task): void {
    this.#count--;
    const ring = this.#ring(task.options.priority);
    if (ring.length > 1_024 && ring.length > this.#count * 2) ring.compact();
  }

  /** The task that has waited longest, whatever its priority. */
  oldest(): Task | undefined {
    let oldest: Task | undefined;
    for (const { ring } of this.#levels) {
      const task = ring.peek();
      if (task !== undefined && (oldest === undefined || task.waitsSince < oldest.waitsSince)) oldest = task;
    }
    return oldest;
  }

  #next(): Ring | undefined {
    const levels = this.#levels;
    if (levels.length === 1) return levels[0]!.ring;
    let oldestRing: Ring | undefined;
    let oldest = Infinity;
    const ages = ++this.#turn % AGEING === 0;
    for (const { ring } of levels) {
      const task = ring.peek();
      if (task === undefined) continue;
      if (!ages) return ring;
      if (task.submitted < oldest) {
        oldest = task.submitted;
        oldestRing = ring;
      }
    }
    return oldestRing;
  }

  #ring(priority: number): Ring {
    if (priority === 0 && this.#defaultRing !== null) return this.#defaultRing;
    const levels = this.#levels;
    let index = 0;
    while (index < levels.length && levels[index]!.priority > priority) index++;
    const found = levels[index];
    if (found !== undefined && found.priority === priority) return found.ring;
    const ring = new Ring(QUEUED);
    levels.splice(index, 0, { priority, ring });
    if (priority === 0) this.#defaultRing = ring;
    return ring;
  }
}
