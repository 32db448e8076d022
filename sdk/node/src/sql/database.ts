/** A database as handlers have it. */
import { errorOf } from './error.js';
import type { Failed, Outcome, Row } from './outcome.js';
import { call } from './desk.js';
import type { WireStatement } from './operation.js';
import { textOf } from './values.js';

/** The rows of a result, and how many the statement gave or changed. */
export type Rows = Row[] & { readonly count: number };

/** A statement with its parameters. */
export type Statement = string | readonly [text: string, parameters?: readonly unknown[]];

export interface Database {
  /** A statement whose values are parameters: `` sql.main`select * from users where id = ${id}` ``. */
  (texts: TemplateStringsArray, ...values: readonly unknown[]): Promise<Rows>;
  /** Runs a statement; parameters are `$1`, `$2` and so on. Rejects with a {@link SqlError}. */
  query(text: string, parameters?: readonly unknown[]): Promise<Rows>;
  /** The first row, or `undefined`. */
  row<R = Row>(text: string, parameters?: readonly unknown[]): Promise<R | undefined>;
  /** The first value of the first row, or `undefined`. */
  value<V = any>(text: string, parameters?: readonly unknown[]): Promise<V | undefined>;
  /**
   * Runs statements that are sent together, without waiting for each other; gives their results in order. Each is one of its own: an error of one, with which this rejects when all
   * have ended, undoes none of the others.
   */
  pipeline(statements: readonly Statement[]): Promise<Rows[]>;
}

export function databaseOf(name: string): Database {
  const query = async (text: string, parameters: readonly unknown[] = []): Promise<Rows> => {
    const [outcome] = await run(name, [[text, parameters.map(textOf)]]);
    return rowsOf(outcome!);
  };
  const database = (texts: TemplateStringsArray, ...values: readonly unknown[]): Promise<Rows> => {
    if (!Array.isArray(texts?.raw)) throw new TypeError('a database is called with a template: sql.main`select ${1}`; query() takes text');
    let text = texts[0]!;
    for (let index = 1; index < texts.length; index++) text += `$${index}${texts[index]}`;
    return query(text, values);
  };
  return Object.assign(database, {
    query,
    async row<R>(text: string, parameters?: readonly unknown[]) {
      return (await query(text, parameters))[0] as R | undefined;
    },
    async value<V>(text: string, parameters?: readonly unknown[]) {
      const [first] = await query(text, parameters);
      for (const column in first) return first[column] as V;
      return undefined;
    },
    async pipeline(statements: readonly Statement[]) {
      if (statements.length === 0) return [];
      const written: WireStatement[] = [];
      for (const statement of statements) {
        const [text, values = []] = typeof statement === 'string' ? [statement] : statement;
        written.push([text, values.map(textOf)]);
      }
      return (await run(name, written)).map(rowsOf);
    },
  });
}

async function run(source: string, statements: readonly WireStatement[]): Promise<readonly Outcome[]> {
  const outcome = (await call({ op: 'statements', source, statements })) as readonly Outcome[] | Failed;
  if ('error' in outcome) throw errorOf(outcome);
  return outcome;
}

function rowsOf(outcome: Outcome): Rows {
  if ('error' in outcome) throw errorOf(outcome);
  return Object.defineProperty(outcome.rows, 'count', { value: outcome.count }) as Rows;
}
