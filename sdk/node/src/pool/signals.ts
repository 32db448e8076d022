/** Abort signals of messages. One listener per signal serves all messages that use it. */
import type { Task } from './task.js';

interface Subscription {
  readonly tasks: Set<Task>;
  readonly listener: () => void;
}

export class Signals {
  // A Map keeps removed entries in its old tables: a message with its own signal would survive a minor collection.
  readonly #subscriptions = new WeakMap<AbortSignal, Subscription>();
  readonly #abort: (task: Task, reason: unknown) => void;

  constructor(abort: (task: Task, reason: unknown) => void) {
    this.#abort = abort;
  }

  /** Aborts the task when the signal is aborted. */
  watch(task: Task, signal: AbortSignal): void {
    const subscription = this.#subscriptions.get(signal);
    if (subscription !== undefined) {
      subscription.tasks.add(task);
      return;
    }
    const tasks = new Set([task]);
    const listener = () => {
      this.#subscriptions.delete(signal);
      for (const aborted of tasks) this.#abort(aborted, signal.reason);
    };
    this.#subscriptions.set(signal, { tasks, listener });
    signal.addEventListener('abort', listener, { once: true });
  }

  /** Stops watching; call it when the task is settled. */
  unwatch(task: Task, signal: AbortSignal): void {
    const subscription = this.#subscriptions.get(signal);
    if (subscription === undefined) return;
    subscription.tasks.delete(task);
    if (subscription.tasks.size > 0) return;
    this.#subscriptions.delete(signal);
    signal.removeEventListener('abort', subscription.listener);
  }
}
