/** Transactions. */
import { sleep } from '../sleep.js';
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

const ISOLATIONS = ['read committed', 'repeatable read', 'serializable'];
const RETRIES = 5;
const RETRIES_MAX = 100;
/** Failures that are the fault of nobody: another attempt may succeed. */
const CONFLICTS = ['40001', '40P01'];
/** Pauses between attempts double from the first to the last, and are chosen at random below that. */
const PAUSE_MS = 10;
const PAUSE_MAX_MS = 500;

type Work<R> = (t: Transaction) => R | PromiseLike<R>;

/** Runs a function in a transaction: again, when others were in the way. */
export async function transact<R>(source: string, work: Work<R>, options: TransactionOptions = {}): Promise<R> {
  if (typeof work !== 'function') throw new TypeError(`a transaction is given a function, not a ${typeof work}`);
  const { isolation, readOnly = false, retries = RETRIES } = options;
  if (isolation !== undefined && !ISOLATIONS.includes(isolation)) {
    throw new RangeError(`the isolation of a transaction is one of ${ISOLATIONS.join(', ')}, not ${String(isolation)}`);
  }
  if (!Number.isInteger(retries) || retries < 0 || retries > RETRIES_MAX) {
    throw new RangeError(`the retries of a transaction are 0 to ${RETRIES_MAX}, not ${String(retries)}`);
  }
  for (let attempt = 0; ; attempt++) {
    try {
      return await attemptOf(source, work, { ...(isolation === undefined ? {} : { isolation }), read_only: Boolean(readOnly) });
    } catch (error) {
      if (attempt >= retries || !(error instanceof SqlError) || !CONFLICTS.includes(error.code)) throw error;
    }
    await sleep(1 + Math.random() * Math.min(PAUSE_MS * 2 ** attempt, PAUSE_MAX_MS));
  }
}

async function attemptOf<R>(source: string, work: Work<R>, how: { isolation?: string; read_only: boolean }): Promise<R> {
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
      for (const outcome of outcomes) if ('error' in outcome && CONFLICTS.includes(outcome.error.code)) this.conflict = new SqlError(outcome.error.message, outcome.error);
      return take(outcomes.map(rowsOf));
    });
  };

  /** Runs a function in a savepoint of it. */
  readonly nest = <R>(work: Work<R>): Promise<R> => {
    if (typeof work !== 'function') throw new TypeError(`a transaction is given a function, not a ${typeof work}`);
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
