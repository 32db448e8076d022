/** What a database and a transaction have in common. */
import type { WireStatement } from './operation.js';
import { rowsOf, type Outcome, type Row, type Rows } from './outcome.js';
import { textOf } from './values.js';

/** A statement with its parameters. */
export type Statement = string | readonly [text: string, parameters?: readonly unknown[]];

export interface Queries {
  /** A statement whose values are parameters: `` sql.main`select * from users where id = ${id}` ``. */
  (texts: TemplateStringsArray, ...values: readonly unknown[]): Promise<Rows>;
  /** Runs a statement; parameters are `$1`, `$2` and so on. Rejects with a `SqlError`. */
  query(text: string, parameters?: readonly unknown[]): Promise<Rows>;
  /** The first row, or `undefined`. */
  row<R = Row>(text: string, parameters?: readonly unknown[]): Promise<R | undefined>;
  /** The first value of the first row, or `undefined`. */
  value<V = any>(text: string, parameters?: readonly unknown[]): Promise<V | undefined>;
  /**
   * Runs statements that are sent together, without waiting for each other; gives their results in order. Outside of a transaction each is one of its own: an error of one, with which this rejects when all have ended, undoes none of
   * the others.
   */
  pipeline(statements: readonly Statement[]): Promise<Rows[]>;
}

/** Those of whoever runs statements, each with an outcome. */
export function queriesOf(run: (statements: readonly WireStatement[]) => Promise<readonly Outcome[]>): Queries {
  const query = async (text: string, parameters?: readonly unknown[]): Promise<Rows> => {
    const [outcome] = await run([written(text, parameters)]);
    return rowsOf(outcome!);
  };
  const template = (texts: TemplateStringsArray, ...values: readonly unknown[]): Promise<Rows> => {
    if (!Array.isArray(texts?.raw)) throw new TypeError('a database is called with a template: sql.main`select ${1}`; query() takes text');
    let text = texts[0]!;
    for (let index = 1; index < texts.length; index++) text += `$${index}${texts[index]}`;
    return query(text, values);
  };
  return Object.assign(template, {
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
      const all = statements.map((statement) => (typeof statement === 'string' ? written(statement) : written(...statement)));
      return (await run(all)).map(rowsOf);
    },
  });
}

export function written(text: string, parameters: readonly unknown[] = []): WireStatement {
  if (typeof text !== 'string') throw new TypeError(`a statement is text, not a ${typeof text}`);
  return [text, parameters.map(textOf)];
}
