/** Sends a reply with a streamed body as BODY frames, within the job's window and at the pace of the link. */
import { HEADER_BYTES, pairsBytes, type Bytes } from '../wire.js';
import { closeQuietly, pieceBytes } from '../pieces.js';
import type { Reply } from '../reply.js';
import type { Job } from './job.js';

/** Longest payload of a BODY frame: small enough that a stream does not delay others. */
const BODY_FRAME_MAX = 65_536;
/** Longest block of the fields behind a body. */
const TRAILERS_BYTES_MAX = 65_536;
/** Pieces that are available at once are collected up to this size before the head is sent. */
const GATHER_BYTES = 32_768;

/** Receives the frames. */
export interface FrameSink {
  /** Sends the RESPONSE frame. */
  head(job: Job, reply: Reply, body: Uint8Array, end: boolean): void;
  body(job: Job, bytes: Uint8Array, end: boolean): void;
  /** Sends the fields behind the body, `[name, value, ...]`, before its end. */
  trailers(job: Job, fields: readonly string[]): void;
  /** Aborts a response whose head has been sent. */
  reset(job: Job): void;
  /** Resolves when no bytes wait in this process's memory. */
  idle(): Promise<void>;
}

/**
 * Streams a reply and ends the job. A body whose pieces are all available at once is sent in one frame. Rejects
 * if the first pieces fail before the head was sent: the caller can then still answer with an error.
 */
export async function streamReply(
  job: Job,
  reply: Reply,
  pieces: AsyncIterator<unknown>,
  sink: FrameSink,
  report: (error: unknown) => void,
): Promise<void> {
  if (job.request.method === 'HEAD') {
    closeQuietly(pieces);
    sink.head(job, reply, EMPTY, false);
    sink.body(job, EMPTY, true);
    return;
  }
  const gathered: Uint8Array[] = [];
  let size = 0;
  let next = pieces.next();
  while (size < GATHER_BYTES) {
    const step = await atOnce(next);
    if (step === null) break;
    if (step.done === true) {
      if (trailersOf(pieces) !== null) break;
      sink.head(job, reply, Buffer.concat(gathered), true);
      return;
    }
    const bytes = pieceBytes(step.value, utf8);
    gathered.push(bytes);
    size += bytes.length;
    next = pieces.next();
  }
  // Awaited later in the loop; until then, a rejection must not count as unhandled.
  next.catch(() => {});
  sink.head(job, reply, EMPTY, false);
  await sendPieces(job, gathered, next, pieces, sink, report);
}

/** Sends the pieces of a response whose head has been sent, and ends the job. */
export async function sendPieces(
  job: Job,
  first: readonly Uint8Array[],
  next: Promise<IteratorResult<unknown>>,
  pieces: AsyncIterator<unknown>,
  sink: FrameSink,
  report: (error: unknown) => void,
): Promise<void> {
  try {
    for (const bytes of first) await send(job, bytes, sink);
    for (;;) {
      const step = await unlessAborted(job, next);
      if (step === null && job.isEnding && !job.aborted) {
        sink.body(job, EMPTY, true);
        closeQuietly(pieces);
        return;
      }
      if (step === null || job.aborted) break;
      if (step.done === true) {
        const trailers = trailersOf(pieces);
        if (trailers !== null) await sendTrailers(job, trailers, sink);
        if (job.aborted) break;
        sink.body(job, EMPTY, true);
        return;
      }
      await send(job, pieceBytes(step.value, utf8), sink);
      next = pieces.next();
    }
  } catch (error) {
    report(error);
  }
  sink.reset(job);
  closeQuietly(pieces);
}

const EMPTY = Buffer.alloc(0);
const utf8 = (text: string): Bytes => Buffer.from(text) as Bytes;

/** The fields that follow these pieces, `[name, value, ...]`; those of a response of `node:http` may have some. */
function trailersOf(pieces: AsyncIterator<unknown> & { readonly trailers?: readonly string[] | null }): readonly string[] | null {
  return pieces.trailers ?? null;
}

/** Sends the fields behind a body once the window has room for them; returns early if the job is aborted. */
async function sendTrailers(job: Job, fields: readonly string[], sink: FrameSink): Promise<void> {
  const length = pairsBytes(fields);
  if (length > TRAILERS_BYTES_MAX) throw new RangeError(`the trailers of a response have ${length} bytes (at most ${TRAILERS_BYTES_MAX} are sent)`);
  while (job.window < length && !job.aborted) await grown(job);
  if (job.aborted) return;
  job.window -= length;
  sink.trailers(job, fields);
}

/** Resolves when the window may have grown, or the job is aborted. */
async function grown(job: Job): Promise<void> {
  await new Promise<void>((resolve) => (job.wake = resolve));
  job.wake = null;
}

/** Sends bytes as BODY frames, as long as the window allows; returns early if the job is aborted. */
async function send(job: Job, bytes: Uint8Array, sink: FrameSink): Promise<void> {
  for (let at = 0; at < bytes.length && !job.aborted; ) {
    if (job.window === 0) {
      await grown(job);
      continue;
    }
    const length = Math.min(bytes.length - at, job.window, BODY_FRAME_MAX - HEADER_BYTES);
    job.window -= length;
    sink.body(job, bytes.subarray(at, at + length), false);
    at += length;
    await sink.idle();
  }
}

/** The result of a step if it settles before the next turn of the event loop, otherwise null. */
function atOnce(step: Promise<IteratorResult<unknown>>): Promise<IteratorResult<unknown> | null> {
  return new Promise((resolve, reject) => {
    step.then(resolve, reject);
    setImmediate(resolve, null);
  });
}

/** The result of a step, or null if the job is aborted or ended first. */
function unlessAborted(
  job: Job,
  step: Promise<IteratorResult<unknown>>,
): Promise<IteratorResult<unknown> | null> {
  return new Promise((resolve, reject) => {
    job.wake = () => {
      if (job.aborted || job.isEnding) resolve(null);
    };
    if (job.aborted || job.isEnding) resolve(null);
    step.then(resolve, reject);
  });
}
