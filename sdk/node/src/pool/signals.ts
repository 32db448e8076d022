/** Abort signals of messages. One listener per signal serves all messages that use it. */
import type { Task } from './task.js';

interface Heeded {
  readonly tasks: Set<Task>;
  readonly listener: () => void;
}

export class Signals {
  // A Map keeps removed entries in its old tables: a message with its own signal would survive a minor collection.
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
