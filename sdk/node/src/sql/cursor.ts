/** Results that are fetched in batches. */
import { ask, readBytes, type StatementResult, type Row } from './outcome.js';
import { written } from './statement.js';

/** Options of a cursor. */
export interface CursorOptions {
  /** Rows fetched at a time, 1 to 10000; 256 by default. A batch of large rows may have fewer. */
  readonly batch?: number | undefined;
}

/** A batch of rows, and the cursor to continue with. */
interface Part extends StatementResult {
  readonly cursor: number | null;
}

const BATCH = 256;

/** The target of an operation: a database, or a transaction in it. */
export interface Place {
  readonly source: string;
  readonly transaction?: number;
}

/** Runs an operation if its transaction allows one now. */
export type Hold = <R>(operation: () => Promise<R>) => Promise<R>;

export const free: Hold = (operation) => operation();

/** The rows of a statement, fetched as the consumer asks for them. Leaving the loop early ends the statement on the server. */
export async function* cursorOf(
  place: Place,
  text: string,
  parameters: readonly unknown[] | undefined,
  { batch = BATCH }: CursorOptions = {},
  hold: Hold = free,
): AsyncGenerator<Row, void, undefined> {
  const { source } = place;
  let { cursor, ...given } = await hold(() => ask<Part>({ op: 'cursor', ...place, statement: written(text, parameters), batch }));
  try {
    for (;;) {
      yield* readBytes(given);
      const id = cursor;
      if (id === null) return;
      cursor = null;
      ({ cursor, ...given } = await hold(() => ask<Part>({ op: 'fetch', source, cursor: id })));
    }
  } finally {
    const id = cursor;
    if (id !== null) await hold(() => ask({ op: 'close', source, id }));
  }
}
