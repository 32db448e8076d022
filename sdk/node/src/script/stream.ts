/** Sends a reply with a streamed body, at the pace of the client. */
import { closeQuietly, pieceBytes } from '../pieces.js';
import type { Reply } from '../reply.js';
import { host } from './host.js';
import { waitFor } from './pending-operations.js';

/** Longer pieces are split: the data that waits for a client is bounded by the number of pieces. */
const PIECE_BYTES_MAX = 65_536;
const GONE = 0;
const FULL = 2;
const utf8 = (text: string): Uint8Array => new Uint8Array(host.utf8(text));

/** Open streams by call. */
const open = new Map<number, AsyncIterator<unknown>>();

/**
 * Streams a reply and ends the call. Rejects if the stream fails before anything was sent: the caller can then still answer with an error.
 */
export async function streamReply(
  call: number,
  isHead: boolean,
  reply: Reply,
  pieces: AsyncIterator<unknown>,
  report: (error: unknown) => void,
): Promise<void> {
  const { status, kind } = reply;
  const headers = reply.headers.length === 0 ? null : reply.headers;
  if (isHead) {
    closeQuietly(pieces);
    host.emptyStream(call, status, kind, headers);
    return;
  }
  host.beginStream(call, status, kind, headers);
  open.set(call, pieces);
  try {
    for (;;) {
      const step = await pieces.next();
      if (step.done === true) break;
      if (!(await send(call, pieceBytes(step.value, utf8)))) {
        closeQuietly(pieces);
        return;
      }
    }
    host.endStream(call);
  } catch (error) {
    const isClosed = !host.isOpen(call);
    if (host.breakStream(call)) throw error;
    if (!isClosed) report(error);
    closeQuietly(pieces);
  } finally {
    open.delete(call);
  }
}

/** Closes the source of a streamed response that is no longer read. */
export function closeStream(call: number): void {
  const pieces = open.get(call);
  if (pieces !== undefined) closeQuietly(pieces);
}

/** Sends a piece; returns false if the client is gone. */
async function send(call: number, bytes: Uint8Array): Promise<boolean> {
  for (let at = 0; at < bytes.length; at += PIECE_BYTES_MAX) {
    const piece = bytes.subarray(at, at + PIECE_BYTES_MAX);
    let status = 1;
    await new Promise<void>((resolve) => {
      const begin = (_: number, wait: number) => (status = host.piece(call, wait, piece)) === FULL;
      waitFor(() => resolve(), begin);
      if (status !== FULL) resolve();
    });
    if (status === GONE) return false;
  }
  return true;
}
