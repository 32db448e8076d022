/** Until when messages may wait: lists by how long that is, in each of which the first is over first. */
import type { Task } from './task.js';

interface List {
  first: Task | null;
  last: Task | null;
}

export class Waits {
  readonly #lists = new Map<number, List>();

  /** A task waits from now on; it may for the shorter of its two limits. */
  add(task: Task): void {
    const limit = limitOf(task);
    if (limit === Infinity) return;
    let list = this.#lists.get(limit);
    if (list === undefined) this.#lists.set(limit, (list = { first: null, last: null }));
    // One that waits again may be older than others, and is most often older than all.
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

  /** Takes out every task that has waited for too long. */
  expired(now: number): Task[] {
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

/** The list that a task is in, by milliseconds. */
function limitOf({ wishes: { deadlines } }: Task): number {
  return Math.min(deadlines.queue, deadlines.total);
}

function endOf(task: Task): number {
  const { queue, total } = task.wishes.deadlines;
  return Math.min(task.waitsSince + queue, task.submitted + total);
}

/** Which of its limits a task that waits has come to first. */
export function passed({ submitted, waitsSince, wishes: { deadlines: { queue, total } } }: Task): 'queue' | 'total' {
  return submitted + total <= waitsSince + queue ? 'total' : 'queue';
}
