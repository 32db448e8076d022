/** Messages that wait: the highest priority first, the oldest first within one. */
import { QUEUED, type Task } from './task.js';

/** Every so many messages the oldest of all is taken, whatever its priority: so none waits for ever. */
const AGEING = 8;
const ROOM_LEAST = 64;

/** A ring of tasks; those that were given up in the middle stay until they are reached. */
class Ring {
  #tasks: (Task | undefined)[] = new Array<Task | undefined>(ROOM_LEAST);
  #head = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  push(task: Task): void {
    this.#grow();
    this.#tasks[(this.#head + this.#length++) & (this.#tasks.length - 1)] = task;
  }

  unshift(task: Task): void {
    this.#grow();
    this.#head = (this.#head - 1) & (this.#tasks.length - 1);
    this.#length++;
    this.#tasks[this.#head] = task;
  }

  /** The oldest that waits still. */
  peek(): Task | undefined {
    for (;;) {
      const task = this.#tasks[this.#head];
      if (task === undefined || task.state === QUEUED) return task;
      this.#drop();
    }
  }

  shift(): Task | undefined {
    const task = this.peek();
    if (task !== undefined) this.#drop();
    return task;
  }

  /** Lets go of what was given up, wherever it is. */
  compact(): void {
    const waiting: Task[] = [];
    for (let index = 0; index < this.#length; index++) {
      const task = this.#tasks[(this.#head + index) & (this.#tasks.length - 1)]!;
      if (task.state === QUEUED) waiting.push(task);
    }
    this.#tasks = new Array<Task | undefined>(ROOM_LEAST);
    this.#head = this.#length = 0;
    for (const task of waiting) this.push(task);
  }

  #drop(): void {
    this.#tasks[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#tasks.length - 1);
    if (--this.#length === 0 && this.#tasks.length > 65_536) this.#tasks = new Array<Task | undefined>(ROOM_LEAST);
  }

  #grow(): void {
    if (this.#length < this.#tasks.length) return;
    const { length } = this.#tasks;
    const larger = new Array<Task | undefined>(length * 2);
    for (let index = 0; index < length; index++) larger[index] = this.#tasks[(this.#head + index) & (length - 1)];
    this.#tasks = larger;
    this.#head = 0;
  }
}

export class Queue {
  /** A ring for each priority that was asked for, the highest first. */
  readonly #levels: { readonly priority: number; readonly ring: Ring }[] = [];
  #usual: Ring | null = null;
  #count = 0;
  #turn = 0;

  /** Tasks that wait. */
  get length(): number {
    return this.#count;
  }

  push(task: Task): void {
    this.#count++;
    this.#ring(task.wishes.priority).push(task);
  }

  /** Puts a task before those of its priority: it has waited before. */
  putBack(task: Task): void {
    this.#count++;
    this.#ring(task.wishes.priority).unshift(task);
  }

  shift(): Task | undefined {
    if (this.#count === 0) return undefined;
    const task = this.#next()?.shift();
    if (task !== undefined) this.#count--;
    return task;
  }

  /** The oldest of the next priority, which stays. */
  peek(): Task | undefined {
    for (const { ring } of this.#levels) {
      const task = ring.peek();
      if (task !== undefined) return task;
    }
    return undefined;
  }

  /** A task that waited here does so no more: its state says so already. */
  forget(task: Task): void {
    this.#count--;
    const ring = this.#ring(task.wishes.priority);
    if (ring.length > 1_024 && ring.length > this.#count * 2) ring.compact();
  }

  *[Symbol.iterator](): Generator<Task> {
    for (let task; (task = this.shift()) !== undefined; ) yield task;
  }

  #next(): Ring | undefined {
    const levels = this.#levels;
    if (levels.length === 1) return levels[0]!.ring;
    let chosen: Ring | undefined;
    let oldest = Infinity;
    const ages = ++this.#turn % AGEING === 0;
    for (const { ring } of levels) {
      const task = ring.peek();
      if (task === undefined) continue;
      if (!ages) return ring;
      if (task.submitted < oldest) {
        oldest = task.submitted;
        chosen = ring;
      }
    }
    return chosen;
  }

  #ring(priority: number): Ring {
    if (priority === 0 && this.#usual !== null) return this.#usual;
    const levels = this.#levels;
    let index = 0;
    while (index < levels.length && levels[index]!.priority > priority) index++;
    const found = levels[index];
    if (found !== undefined && found.priority === priority) return found.ring;
    const ring = new Ring();
    levels.splice(index, 0, { priority, ring });
    if (priority === 0) this.#usual = ring;
    return ring;
  }
}
