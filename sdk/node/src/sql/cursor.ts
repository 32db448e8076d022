/** Results that are taken part by part. */
import { ask, readBytes, type Given, type Row } from './outcome.js';
import { written } from './statement.js';

/** Options of a cursor. */
export interface CursorOptions {
  /** Rows that are fetched at a time, 1 to 10000; 256 when left out. Fewer come where they are large. */
  readonly batch?: number | undefined;
}

/** Rows, and the cursor of more. */
interface Part extends Given {
  readonly cursor: number | null;
}

const BATCH = 256;

/** Where something is asked for: a database, or a transaction of it. */
export interface Place {
  readonly source: string;
  readonly transaction?: number;
}

/** Has something done, if that can be asked for now. */
export type Hold = <R>(operation: () => Promise<R>) => Promise<R>;

export const free: Hold = (operation) => operation();

/** The rows of a statement, fetched as they are asked for. Whoever leaves the loop early ends the statement on the server. */
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
