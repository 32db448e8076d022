import { bound } from './client-calls.js';
import { callable, wholeNumber } from '../tools/arguments.js';

/** Maximum number of functions submitted together. */
const TASKS_MAX = 1000;
const TIME_MAX = 24 * 3600_000;

type Task = () => unknown;

/**
 * Runs functions of a rule concurrently with it, in the rule's own engine and so one step at a time. The functions see the variables around
 * them, and their waits overlap.
 */
export class ScriptExecutor {
  /** Runs a function as soon as the rule waits for something; resolves to its result. */
  submit<R>(task: () => R | PromiseLike<R>): Promise<R> {
    callable(task, 'task');
    return Promise.resolve().then(bound(task));
  }

  /**
   * Runs functions; resolves to their results in order when all have ended. Rejects with the first error, or with a `TimeoutError` after
   * `timeoutMs`.
   */
  async submitForComplete(tasks: readonly Task[], timeoutMs: number): Promise<unknown[]> {
    if (!Array.isArray(tasks) || tasks.length > TASKS_MAX) throw new TypeError(`\`tasks\` is an array of at most ${TASKS_MAX} functions`);
    wholeNumber(timeoutMs, 'timeoutMs', 1, TIME_MAX);
    let timer: unknown;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => reject(new DOMException(`the functions have not ended after ${timeoutMs} ms`, 'TimeoutError')), timeoutMs);
    });
    try {
      return await Promise.race([Promise.all((tasks as Task[]).map((task) => this.submit(task))), late]);
    } finally {
      clearTimeout(timer as never);
    }
  }
}
