/** Bulk copy of rows in and out (`copy ... from stdin`, `copy ... to stdout`). */
import { unguarded, type Guard, type Target } from './cursor.js';
import { ask } from './outcome.js';
import { bytesOf, hexOf } from './values.js';

/** The data to copy in: text or bytes, split at any position. */
export type Pieces = string | Uint8Array | Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>;

/** Text is collected up to this length before it is sent. */
const GATHER = 32_768;
/** Bytes are sent in chunks of this size. */
const PART_BYTES = 65_536;

/** Copies rows in; returns their number. */
export async function copyIn(target: Target, text: string, pieces: Pieces, guard: Guard = unguarded): Promise<number> {
  const { source } = target;
  const all = typeof pieces === 'string' || pieces instanceof Uint8Array ? [pieces] : pieces;
  const { copy } = await guard(() => ask<{ copy: number }>({ op: 'copy_in', ...target, text: String(text) }));
  try {
    let gathered = '';
    const flush = async (): Promise<void> => {
      if (gathered === '') return;
      const text = gathered;
      gathered = '';
      await guard(() => ask({ op: 'copy_send', source, copy, text }));
    };
    for await (const piece of all) {
      if (typeof piece === 'string') {
        gathered += piece;
        if (gathered.length >= GATHER) await flush();
      } else if (piece instanceof Uint8Array) {
        await flush();
        for (let at = 0; at < piece.length; at += PART_BYTES) {
          const bytes = hexOf(piece.subarray(at, at + PART_BYTES));
          await guard(() => ask({ op: 'copy_send', source, copy, bytes }));
        }
      } else {
        throw new TypeError(`copyIn() takes strings and Uint8Array, not a ${typeof piece}`);
      }
    }
    await flush();
  } catch (error) {
    await guard(() => ask({ op: 'close', source, id: copy })).catch(() => {});
    throw error;
  }
  const { count } = await guard(() => ask<{ count: number }>({ op: 'copy_done', source, copy }));
  return count;
}

/** Copies rows out, as the consumer asks for them. */
export async function* copyOut(target: Target, text: string, guard: Guard = unguarded): AsyncGenerator<string | Uint8Array, void, undefined> {
  const { source } = target;
  const { copy } = await guard(() => ask<{ copy: number }>({ op: 'copy_out', ...target, text: String(text) }));
  let isOver = false;
  try {
    for (;;) {
      isOver = true;
      const piece = await guard(() => ask<{ text?: string; bytes?: string }>({ op: 'copy_read', source, copy }));
      if (piece.text === undefined && piece.bytes === undefined) return;
      isOver = false;
      yield piece.text ?? bytesOf(piece.bytes!);
    }
  } finally {
    if (!isOver) await guard(() => ask({ op: 'close', source, id: copy }));
  }
}
