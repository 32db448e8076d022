/** Tasks in a row; those that were given up in the middle stay until they are reached, or until room is short. */
import type { Task, TaskState } from './task.js';

const ROOM_LEAST = 64;
/** More room than this is given back as soon as it is empty. */
const ROOM_KEPT = 65_536;

export class Ring {
  /** What a task's state is as long as it waits here. */
  readonly #state: TaskState;
  #tasks: (Task | undefined)[] = new Array<Task | undefined>(ROOM_LEAST);
  #head = 0;
  #length = 0;

  constructor(state: TaskState) {
    this.#state = state;
  }

  /** With those that were given up and are still here. */
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

  /** The first that waits still. */
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

  /** Takes all that wait out, the first first. */
  takeAll(): Task[] {
    const waiting = this.#waiting();
    this.#tasks = new Array<Task | undefined>(ROOM_LEAST);
    this.#head = this.#length = 0;
    return waiting;
  }

  /** Lets go of what was given up, wherever it is. */
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
