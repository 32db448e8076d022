/** What a database and a transaction have in common. */
import type { Row, Rows } from './outcome.js';

/** A statement with its parameters. */
export type Statement = string | readonly [text: string, parameters?: readonly unknown[] | undefined];

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

/** Runs statements and gives what `take` makes of their results, in order; rejects with the first error, when all have ended. */
export type Run = <R>(statements: readonly Statement[], take: (results: Rows[]) => R) => Promise<R>;

/** What statements are run for. */
export const allResults = (results: Rows[]): Rows[] => results;
export const onlyResult = ([result]: Rows[]): Rows => result!;
export const firstRow = (results: Rows[]): Row | undefined => results[0]![0];
export const firstValue = (results: Rows[]): unknown => {
  const row = results[0]![0];
  for (const column in row) return row[column];
  return undefined;
};

/** Those of whoever runs statements. */
export function queriesOf(run: Run): Queries {
  const query = (text: string, parameters?: readonly unknown[]): Promise<Rows> => run([[text, parameters]], onlyResult);
  const template = (texts: TemplateStringsArray, ...values: readonly unknown[]): Promise<Rows> => {
    if (!Array.isArray(texts?.raw)) throw new TypeError('a database is called with a template: sql.main`select ${1}`; query() takes text');
    let text = texts[0]!;
    for (let index = 1; index < texts.length; index++) text += `$${index}${texts[index]}`;
    return query(text, values);
  };
  return Object.assign(template, {
    query,
    row: <R>(text: string, parameters?: readonly unknown[]) => run([[text, parameters]], firstRow) as Promise<R | undefined>,
    value: <V>(text: string, parameters?: readonly unknown[]) => run([[text, parameters]], firstValue) as Promise<V | undefined>,
    pipeline: (statements: readonly Statement[]) => run(statements, allResults),
  });
}
