import { callable, wholeNumber } from '../tools/arguments.js';

/** Most functions that are submitted together. */
const TASKS_MAX = 1000;
const TIME_MAX = 24 * 3600_000;

type Task = () => unknown;

/**
 * Functions of a rule that run beside it. They run in its own engine, one step at a time, and see what is around them; what they wait for they wait for at
 * the same time.
 */
export class ScriptExecutor {
  /** Runs a function once the rule waits for something; the promise has what it gives. */
  submit<R>(task: () => R | PromiseLike<R>): Promise<R> {
    callable(task, 'task');
    return Promise.resolve().then(task);
  }

  /** Runs functions; gives what they give, in order, when all have ended. Rejects with the first error, or a `TimeoutError` when that takes longer. */
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
