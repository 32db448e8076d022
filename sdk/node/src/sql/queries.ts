/** The common interface of databases and transactions. */
import type { Row, Rows } from './outcome.js';

/** A statement with its parameters. */
export type Statement = string | readonly [text: string, parameters?: readonly unknown[] | undefined];

export interface Queries {
  /** Runs a statement whose values become parameters: `` sql.main`select * from users where id = ${id}` ``. */
  <R = Row>(texts: TemplateStringsArray, ...values: readonly unknown[]): Promise<Rows<R>>;
  /** Runs a statement with parameters `$1`, `$2` and so on. Rejects with a `SqlError`. */
  query<R = Row>(text: string, parameters?: readonly unknown[]): Promise<Rows<R>>;
  /** The first row, or `undefined` if there is none. */
  row<R = Row>(text: string, parameters?: readonly unknown[]): Promise<R | undefined>;
  /** The first value of the first row, or `undefined` if there is none. */
  value<V = any>(text: string, parameters?: readonly unknown[]): Promise<V | undefined>;
  /**
   * Runs statements that are sent together, without waiting for each other; resolves to their results in order. Outside of a transaction,
   * each statement is a transaction of its own: if one fails, the others still take effect, and the promise rejects with that error once
   * all have ended.
   */
  pipeline(statements: readonly Statement[]): Promise<Rows[]>;
}

/** Runs statements; resolves to what `take` makes of their results in order. Rejects with the first error once all have ended. */
export type Run = <R>(statements: readonly Statement[], take: (results: Rows[]) => R) => Promise<R>;

/** Functions that pick the wanted value from the results. */
export const allResults = (results: Rows[]): Rows[] => results;
export const onlyResult = ([result]: Rows[]): Rows => result!;
export const firstRow = (results: Rows[]): Row | undefined => results[0]![0];
export const firstValue = (results: Rows[]): unknown => {
  const row = results[0]![0];
  for (const column in row) return row[column];
  return undefined;
};

/** Builds the query methods on top of a function that runs statements. */
export function queriesOf(run: Run): Queries {
  const query = (text: string, parameters?: readonly unknown[]) => run([[text, parameters]], onlyResult) as Promise<Rows<any>>;
  const template = <R>(texts: TemplateStringsArray, ...values: readonly unknown[]): Promise<Rows<R>> => {
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
