/** Signals that messages heed. However many heed one signal, it has one listener. */
import type { Task } from './task.js';

interface Heeded {
  readonly tasks: Set<Task>;
  readonly listener: () => void;
}

export class Signals {
  // In a Map, what was taken out is still held by its older tables: each message with a signal of its own would outlive a collection of young objects.
  readonly #heeded = new WeakMap<AbortSignal, Heeded>();
  readonly #abort: (task: Task, reason: unknown) => void;

  constructor(abort: (task: Task, reason: unknown) => void) {
    this.#abort = abort;
  }

  heed(task: Task, signal: AbortSignal): void {
    const known = this.#heeded.get(signal);
    if (known !== undefined) {
      known.tasks.add(task);
      return;
    }
    const tasks = new Set([task]);
    const listener = () => {
      this.#heeded.delete(signal);
      for (const aborted of tasks) this.#abort(aborted, signal.reason);
    };
    this.#heeded.set(signal, { tasks, listener });
    signal.addEventListener('abort', listener, { once: true });
  }

  forget(task: Task, signal: AbortSignal): void {
    const known = this.#heeded.get(signal);
    if (known === undefined) return;
    known.tasks.delete(task);
    if (known.tasks.size > 0) return;
    this.#heeded.delete(signal);
    signal.removeEventListener('abort', known.listener);
  }
}
