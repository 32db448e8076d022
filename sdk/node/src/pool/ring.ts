/** A ring buffer of tasks. A task that is given up stays in it until it is reached or room is needed. */
import type { Task, TaskState } from './task.js';

const ROOM_LEAST = 64;
/** A larger buffer is released as soon as it is empty. */
const ROOM_KEPT = 65_536;

export class Ring {
  /** The state of tasks that wait in this ring; any other state means that the task is to be skipped. */
  readonly #state: TaskState;
  #tasks: (Task | undefined)[] = new Array<Task | undefined>(ROOM_LEAST);
  #head = 0;
  #length = 0;

  constructor(state: TaskState) {
    this.#state = state;
  }

  /** Includes tasks that were given up but are still in the buffer. */
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

  /** The first task that still waits. */
  peek(): Task | undefined {
    for (;;) {
      const task = this.#tasks[this.#head];
      if (task === undefined || task.state === this.#state) return task;
      this.#drop();
    }
  }

  shift(): Task | undefined {
    const task = this.peek();
    if (task !== undefined) this.#drop();
    return task;
  }

  /** Removes and returns all waiting tasks in order. */
  takeAll(): Task[] {
    const waiting = this.#waiting();
    this.#tasks = new Array<Task | undefined>(ROOM_LEAST);
    this.#head = this.#length = 0;
    return waiting;
  }

  /** Removes all tasks that were given up. */
  compact(): void {
    const waiting = this.#waiting();
    let room = ROOM_LEAST;
    while (room < waiting.length * 2) room *= 2;
    this.#tasks = new Array<Task | undefined>(room);
    this.#head = 0;
    this.#length = waiting.length;
    for (let index = 0; index < waiting.length; index++) this.#tasks[index] = waiting[index];
  }

  #waiting(): Task[] {
    const waiting: Task[] = [];
    for (let index = 0; index < this.#length; index++) {
      const task = this.#tasks[(this.#head + index) & (this.#tasks.length - 1)]!;
      if (task.state === this.#state) waiting.push(task);
    }
    return waiting;
  }

  #drop(): void {
    this.#tasks[this.#head] = undefined;
    this.#head = (this.#head + 1) & (this.#tasks.length - 1);
    if (--this.#length === 0 && this.#tasks.length > ROOM_KEPT) this.#tasks = new Array<Task | undefined>(ROOM_LEAST);
  }

  #grow(): void {
    if (this.#length === this.#tasks.length) this.compact();
  }
}
