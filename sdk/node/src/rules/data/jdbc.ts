/** PostgreSQL databases, with the names of Rengine's JDBC access. */
import type { Database } from '../../sql/database.js';
import type { Rows } from '../../sql/outcome.js';
import type { Statement } from '../../sql/queries.js';
import { filledText } from '../tools/arguments.js';

/** The `sql` global: the databases that rules may access. */
const databases = (): Readonly<Record<string, Database>> => (globalThis as unknown as { sql: Readonly<Record<string, Database>> }).sql;

/** Longest statement in which `?` parameters are searched for, in UTF-16 units. */
const STATEMENT_MAX = 65_536;
/**
 * Matches strings, names, comments and quoted bodies, in which a `?` is no parameter, or a `?` itself. Unterminated ones extend to the end.
 */
const PARTS = /[eE]'(?:[^'\\]|\\[^]|'')*'?|'[^']*'?|"[^"]*"?|--[^\n]*|\/\*(?:(?!\*\/)[^])*(?:\*\/)?|\$(\w*)\$(?:(?!\$\1\$)[^])*(?:\$\1\$)?|\?\??/g;

/** The database of `[sql.NAME]`. Parameters are `$1`, `$2` and so on, or `?` each, as in JDBC; the operator `?` is then written `??`. */
export class JdbcFacade {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  /** Returns the rows of a statement. Parameters are an array, or the further arguments. */
  async findList(text: string, ...parameters: unknown[]): Promise<Rows> {
    return this.#run(text, parameters);
  }

  /** Returns the first row of the statement's `returning` clause; null if there is none. */
  async insert(text: string, ...parameters: unknown[]): Promise<Record<string, unknown> | null> {
    return (await this.#run(text, parameters))[0] ?? null;
  }

  /** Returns the number of rows changed. */
  async update(text: string, ...parameters: unknown[]): Promise<number> {
    return (await this.#run(text, parameters)).count;
  }

  /** Runs a statement once for each list of parameters, in one transaction; returns the number of rows changed by each. */
  async batch(text: string, lists: readonly (readonly unknown[])[]): Promise<number[]> {
    const statement = numbered(text);
    if (!Array.isArray(lists) || !lists.every((list) => Array.isArray(list))) throw new TypeError('`params` is an array with an array of parameters for each time');
    const statements: Statement[] = lists.map((list: readonly unknown[]) => [statement, list]);
    const results = await databases()[this.#name]!.tx((transaction) => transaction.pipeline(statements));
    return results.map(({ count }) => count);
  }

  /** Same as `batch`. */
  async insertBatch(text: string, lists: readonly (readonly unknown[])[]): Promise<number[]> {
    return this.batch(text, lists);
  }

  #run(text: string, parameters: readonly unknown[]): Promise<Rows> {
    const [first] = parameters;
    const own = parameters.length === 1 && Array.isArray(first) ? (first as unknown[]) : parameters;
    return databases()[this.#name]!.query(numbered(text), own);
  }
}

/** Replaces each `?` parameter by a numbered one. */
export function numbered(statement: string): string {
  filledText(statement, 'sql');
  if (!statement.includes('?')) return statement;
  if (statement.length > STATEMENT_MAX) throw new RangeError(`a statement with \`?\` has at most ${STATEMENT_MAX} characters, and this one ${statement.length}: \`$1\` and so on have no such bound`);
  let count = 0;
  return statement.replace(PARTS, (part) => (part === '?' ? `$${++count}` : part === '??' ? '?' : part));
}
