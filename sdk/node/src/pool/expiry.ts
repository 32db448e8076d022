/** Expiry of waiting messages: one list for each time limit, sorted by when the messages expire. */
import type { Task } from './task.js';

interface List {
  first: Task | null;
  last: Task | null;
}

export class ExpiryLists {
  readonly #lists = new Map<number, List>();

  /** Adds a task that starts to wait; the shorter of its two limits counts. */
  add(task: Task): void {
    const limit = limitOf(task);
    if (limit === Infinity) return;
    let list = this.#lists.get(limit);
    if (list === undefined) this.#lists.set(limit, (list = { first: null, last: null }));
    // A retried task may be older than others, and usually is older than all of them.
    let before = list.first !== null && endOf(task) < endOf(list.first) ? null : list.last;
    while (before !== null && endOf(before) > endOf(task)) before = before.before;
    task.before = before;
    task.after = before === null ? list.first : before.after;
    if (task.before === null) list.first = task;
    else task.before.after = task;
    if (task.after === null) list.last = task;
    else task.after.before = task;
  }

  remove(task: Task): void {
    const limit = limitOf(task);
    if (limit === Infinity) return;
    const list = this.#lists.get(limit);
    if (list === undefined || (task.before === null && list.first !== task)) return;
    if (task.before === null) list.first = task.after;
    else task.before.after = task.after;
    if (task.after === null) list.last = task.before;
    else task.after.before = task.before;
    task.before = task.after = null;
    if (list.first === null) this.#lists.delete(limit);
  }

  /** Removes and returns all tasks that have waited too long. */
  takeExpired(now: number): Task[] {
    const found: Task[] = [];
    for (const list of [...this.#lists.values()]) {
      for (let task = list.first; task !== null && endOf(task) <= now; task = list.first) {
        this.remove(task);
        found.push(task);
      }
    }
    return found;
  }
}

/** The shorter time limit of a task, in milliseconds; the key of its list. */
function limitOf({ options: { deadlines } }: Task): number {
  return Math.min(deadlines.queue, deadlines.total);
}

function endOf(task: Task): number {
  const { queue, total } = task.options.deadlines;
  return Math.min(task.waitsSince + queue, task.submitted + total);
}

/** The limit that a waiting task reached first. */
export function reachedLimit({ submitted, waitsSince, options: { deadlines: { queue, total } } }: Task): 'queue' | 'total' {
  return submitted + total <= waitsSince + queue ? 'total' : 'queue';
}
