/** How statements reach a database: scripts have another module in the place of this one. */
import type { Outcome } from './outcome.js';
import type { Text } from './values.js';

/** Has statements run on the database of this name, each sent without waiting for those before; gives the outcome of each. */
export function runStatements(name: string, _texts: readonly string[], _parameters: readonly (readonly Text[])[]): Promise<Outcome[]> {
  return Promise.reject(new TypeError(`database ${JSON.stringify(name)} is reached by scripts, which run inside the server (\`[script.NAME]\`); here no database is`));
}
