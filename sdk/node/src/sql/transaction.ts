/** Transactions of handlers, with retries and savepoints. */
import { sleep } from '../sleep.js';
import { attemptsOf, checkWork, isConflict, pauseAfter, type Attempts } from './attempts.js';
import { copyIn, copyOut, type Pieces } from './copy.js';
import { cursorOf, type CursorOptions, type Guard } from './cursor.js';
import { SqlError } from './error.js';
import { ask, rowsOf, type Outcome, type Row } from './outcome.js';
import { queriesOf, type Queries, type Run } from './queries.js';
import { toWireStatement } from './statement.js';

/** Options of a transaction. */
export interface TransactionOptions {
  /** The isolation level; by default that of the database, normally `read committed`. */
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable' | undefined;
  /** Whether the transaction is read-only. */
  readonly readOnly?: boolean | undefined;
  /** Maximum number of retries after serialization failures (40001) and deadlocks (40P01), 0 to 100; 5 by default. */
  readonly retries?: number | undefined;
}

/** An open transaction. Its statements run one after the other; it cannot be used after its function has ended. */
export interface Transaction extends Queries {
  /**
   * Runs a function in a savepoint: if it throws, its changes are rolled back, and the transaction can continue. Until it ends, only its
   * own argument may be used.
   */
  tx<R>(work: (t: Transaction) => R | PromiseLike<R>): Promise<R>;
  /** The rows of a statement, fetched as you ask for them; other statements may run in between. */
  cursor(text: string, parameters?: readonly unknown[], options?: CursorOptions): AsyncGenerator<Row, void, undefined>;
  /** Copies rows in; resolves to their number. No other statement may run meanwhile. */
  copyIn(text: string, pieces: Pieces): Promise<number>;
  /** Copies rows out as strings, or as bytes if the statement says `format binary`. No other statement may run until the end. */
  copyOut(text: string): AsyncGenerator<string | Uint8Array, void, undefined>;
}

type Work<R> = (t: Transaction) => R | PromiseLike<R>;

/** Runs a function in a transaction, with retries after conflicts. */
export async function transact<R>(source: string, work: Work<R>, options: TransactionOptions = {}): Promise<R> {
  const attempts = attemptsOf(work, options);
  for (let attempt = 0; ; attempt++) {
    let pause: number;
    try {
      return await runAttempt(source, work, attempts.begin);
    } catch (error) {
      pause = pauseAfter(error, attempt, attempts);
    }
    await sleep(pause);
  }
}

async function runAttempt<R>(source: string, work: Work<R>, begin: Attempts['begin']): Promise<R> {
  const { transaction } = await ask<{ transaction: number }>({ op: 'begin', source, ...begin });
  const target = { source, transaction };
  const scope = new Scope(target);
  let result: R;
  try {
    result = await work(transactionOf(target, scope));
    await scope.end();
  } catch (error) {
    await scope.end();
    // If the rollback fails, the transaction has ended anyway.
    await ask({ op: 'rollback', ...target }).catch(() => {});
    throw error;
  }
  try {
    await ask({ op: 'commit', ...target });
  } catch (error) {
    throw error instanceof SqlError && error.code === 'rolled_back' ? (scope.conflict ?? error) : error;
  }
  return result;
}

interface Target {
  readonly source: string;
  readonly transaction: number;
}

/** A transaction or savepoint; ensures that it is used only while it is open and has no open savepoint. */
class Scope {
  readonly #target: Target;
  readonly #pending = new Set<Promise<unknown>>();
  #hasSavepoint = false;
  #isEnded = false;
  /** The last conflict with another transaction; reported instead of `rolled_back`, so that the transaction is retried. */
  conflict: SqlError | undefined;

  constructor(target: Target) {
    this.#target = target;
  }

  /** Runs an operation in this scope. */
  readonly guard: Guard = <R>(operation: () => Promise<R>): Promise<R> => {
    this.#check();
    return this.#track(operation());
  };

  readonly run: Run = async (statements, take) => {
    const wireStatements = statements.map(toWireStatement);
    if (wireStatements.length === 0) return take([]);
    return this.guard(async () => {
      const outcomes = await ask<readonly Outcome[]>({ op: 'statements', ...this.#target, statements: wireStatements });
      for (const outcome of outcomes) if ('error' in outcome && isConflict(outcome.error.code)) this.conflict = new SqlError(outcome.error.message, outcome.error);
      return take(outcomes.map(rowsOf));
    });
  };

  /** Runs a function in a savepoint. */
  readonly nest = <R>(work: Work<R>): Promise<R> => {
    checkWork(work);
    this.#check();
    this.#hasSavepoint = true;
    return this.#track(
      this.#inSavepoint(work).finally(() => {
        this.#hasSavepoint = false;
      }),
    );
  };

  async #inSavepoint<R>(work: Work<R>): Promise<R> {
    const target = this.#target;
    const { savepoint } = await ask<{ savepoint: number }>({ op: 'savepoint', ...target });
    const scope = new Scope(target);
    let result: R;
    try {
      result = await work(transactionOf(target, scope));
      await scope.end();
    } catch (error) {
      await scope.end();
      await ask({ op: 'rollback_to', ...target, savepoint });
      throw error;
    }
    this.conflict ??= scope.conflict;
    await ask({ op: 'release', ...target, savepoint });
    return result;
  }

  /** Waits for operations that were not awaited, then closes the scope. */
  async end(): Promise<void> {
    while (this.#pending.size > 0) await Promise.allSettled(this.#pending);
    this.#isEnded = true;
  }

  #check(): void {
    if (this.#isEnded) throw new TypeError('the transaction has ended');
    if (this.#hasSavepoint) throw new TypeError('a transaction within this one has not ended: use the argument of its function');
  }

  #track<R>(promise: Promise<R>): Promise<R> {
    this.#pending.add(promise);
    const forget = (): void => {
      this.#pending.delete(promise);
    };
    promise.then(forget, forget);
    return promise;
  }
}

function transactionOf(target: Target, { run, nest, guard }: Scope): Transaction {
  return Object.assign(queriesOf(run), {
    tx: async <R>(work: Work<R>) => nest(work),
    cursor: (text: string, parameters?: readonly unknown[], options?: CursorOptions) => cursorOf(target, text, parameters, options, guard),
    copyIn: (text: string, pieces: Pieces) => copyIn(target, text, pieces, guard),
    copyOut: (text: string) => copyOut(target, text, guard),
  });
}
