/** Transactions. */
import { sleep } from '../sleep.js';
import { attemptsOf, checkWork, isConflict, pauseAfter, type Attempts } from './attempts.js';
import { copyIn, copyOut, type Pieces } from './copy.js';
import { cursorOf, type CursorOptions, type Hold } from './cursor.js';
import { SqlError } from './error.js';
import { ask, rowsOf, type Outcome, type Row } from './outcome.js';
import { queriesOf, type Queries, type Run } from './queries.js';
import { writtenOf } from './statement.js';

/** How a transaction is run. */
export interface TransactionOptions {
  /** What it sees of others; as the database has it when left out, which is `read committed` unless somebody has changed that. */
  readonly isolation?: 'read committed' | 'repeatable read' | 'serializable' | undefined;
  /** Whether it may change nothing. */
  readonly readOnly?: boolean | undefined;
  /** How often it is begun anew after a serialization failure (40001) or a deadlock (40P01), 0 to 100; 5 when left out. */
  readonly retries?: number | undefined;
}

/** A transaction that is open, with what a database has. What it is asked for waits for its turn; nothing can be asked for once its function has ended. */
export interface Transaction extends Queries {
  /** Runs a function in a savepoint: when that throws, what it did is undone, and the transaction can go on. Until it has ended only its own argument can be used. */
  tx<R>(work: (t: Transaction) => R | PromiseLike<R>): Promise<R>;
  /** The rows of a statement, fetched as they are asked for; other statements may be run in between. */
  cursor(text: string, parameters?: readonly unknown[], options?: CursorOptions): AsyncGenerator<Row, void, undefined>;
  /** Copies rows in as bytes; gives their number. Nothing else can be asked for meanwhile. */
  copyIn(text: string, pieces: Pieces): Promise<number>;
  /** Copies rows out as bytes, which are strings unless the statement says `format binary`. Nothing else can be asked for until their end. */
  copyOut(text: string): AsyncGenerator<string | Uint8Array, void, undefined>;
}

type Work<R> = (t: Transaction) => R | PromiseLike<R>;

/** Runs a function in a transaction: again, when others were in the way. */
export async function transact<R>(source: string, work: Work<R>, options: TransactionOptions = {}): Promise<R> {
  const attempts = attemptsOf(work, options);
  for (let attempt = 0; ; attempt++) {
    let pause: number;
    try {
      return await attemptOf(source, work, attempts.how);
    } catch (error) {
      pause = pauseAfter(error, attempt, attempts);
    }
    await sleep(pause);
  }
}

async function attemptOf<R>(source: string, work: Work<R>, how: Attempts['how']): Promise<R> {
  const { transaction } = await ask<{ transaction: number }>({ op: 'begin', source, ...how });
  const place = { source, transaction };
  const scope = new Scope(place);
  let result: R;
  try {
    result = await work(transactionOf(place, scope));
    await scope.end();
  } catch (error) {
    await scope.end();
    // What stands in the way of that ends the transaction all the same.
    await ask({ op: 'rollback', ...place }).catch(() => {});
    throw error;
  }
  try {
    await ask({ op: 'commit', ...place });
  } catch (error) {
    throw error instanceof SqlError && error.code === 'rolled_back' ? (scope.conflict ?? error) : error;
  }
  return result;
}

interface Place {
  readonly source: string;
  readonly transaction: number;
}

/** What may be asked of a transaction or a savepoint, and when. */
class Scope {
  readonly #place: Place;
  readonly #begun = new Set<Promise<unknown>>();
  #nested = false;
  #ended = false;
  /** A failure that another attempt may be spared. */
  conflict: SqlError | undefined;

  constructor(place: Place) {
    this.#place = place;
  }

  /** Does something in it. */
  readonly hold: Hold = <R>(operation: () => Promise<R>): Promise<R> => {
    this.#check();
    return this.#keep(operation());
  };

  readonly run: Run = async (statements, take) => {
    const written = statements.map(writtenOf);
    if (written.length === 0) return take([]);
    return this.hold(async () => {
      const outcomes = await ask<readonly Outcome[]>({ op: 'statements', ...this.#place, statements: written });
      for (const outcome of outcomes) if ('error' in outcome && isConflict(outcome.error.code)) this.conflict = new SqlError(outcome.error.message, outcome.error);
      return take(outcomes.map(rowsOf));
    });
  };

  /** Runs a function in a savepoint of it. */
  readonly nest = <R>(work: Work<R>): Promise<R> => {
    checkWork(work);
    this.#check();
    this.#nested = true;
    return this.#keep(
      this.#inSavepoint(work).finally(() => {
        this.#nested = false;
      }),
    );
  };

  async #inSavepoint<R>(work: Work<R>): Promise<R> {
    const place = this.#place;
    const { savepoint } = await ask<{ savepoint: number }>({ op: 'savepoint', ...place });
    const scope = new Scope(place);
    let result: R;
    try {
      result = await work(transactionOf(place, scope));
      await scope.end();
    } catch (error) {
      await scope.end();
      await ask({ op: 'rollback_to', ...place, savepoint });
      throw error;
    }
    this.conflict ??= scope.conflict;
    await ask({ op: 'release', ...place, savepoint });
    return result;
  }

  /** Waits for what was begun and not waited for; nothing else is begun. */
  async end(): Promise<void> {
    while (this.#begun.size > 0) await Promise.allSettled(this.#begun);
    this.#ended = true;
  }

  #check(): void {
    if (this.#ended) throw new TypeError('the transaction has ended');
    if (this.#nested) throw new TypeError('a transaction within this one has not ended: use the argument of its function');
  }

  #keep<R>(promise: Promise<R>): Promise<R> {
    this.#begun.add(promise);
    const forget = (): void => {
      this.#begun.delete(promise);
    };
    promise.then(forget, forget);
    return promise;
  }
}

function transactionOf(place: Place, { run, nest, hold }: Scope): Transaction {
  return Object.assign(queriesOf(run), {
    tx: async <R>(work: Work<R>) => nest(work),
    cursor: (text: string, parameters?: readonly unknown[], options?: CursorOptions) => cursorOf(place, text, parameters, options, hold),
    copyIn: (text: string, pieces: Pieces) => copyIn(place, text, pieces, hold),
    copyOut: (text: string) => copyOut(place, text, hold),
  });
}
