/** Results that are fetched in batches. */
import { ask, readBytes, type StatementResult, type Row } from './outcome.js';
import { wireStatement } from './statement.js';

/** Options of a cursor. */
export interface CursorOptions {
  /** Rows fetched at a time, 1 to 10000; 256 by default. A batch of large rows may have fewer. */
  readonly batch?: number | undefined;
}

/** A batch of rows, and the cursor to continue with. */
interface CursorBatch extends StatementResult {
  readonly cursor: number | null;
}

const BATCH = 256;

/** The target of an operation: a database, or a transaction in it. */
export interface Target {
  readonly source: string;
  readonly transaction?: number;
}

/** Runs an operation if its transaction allows one now. */
export type Guard = <R>(operation: () => Promise<R>) => Promise<R>;

export const unguarded: Guard = (operation) => operation();

/** The rows of a statement, fetched as the consumer asks for them. Leaving the loop early ends the statement on the server. */
export async function* cursorOf(
  target: Target,
  text: string,
  parameters: readonly unknown[] | undefined,
  { batch = BATCH }: CursorOptions = {},
  guard: Guard = unguarded,
): AsyncGenerator<Row, void, undefined> {
  const { source } = target;
  let { cursor, ...result } = await guard(() => ask<CursorBatch>({ op: 'cursor', ...target, statement: wireStatement(text, parameters), batch }));
  try {
    for (;;) {
      yield* readBytes(result);
      const id = cursor;
      if (id === null) return;
      cursor = null;
      ({ cursor, ...result } = await guard(() => ask<CursorBatch>({ op: 'fetch', source, cursor: id })));
    }
  } finally {
    const id = cursor;
    if (id !== null) await guard(() => ask({ op: 'close', source, id }));
  }
}
