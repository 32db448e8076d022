/** Sends a reply whose body comes in pieces: as BODY frames, within the job's window and at the link's pace. */
import { HEADER_BYTES, type Bytes } from '../wire.js';
import { closeQuietly, pieceBytes } from '../pieces.js';
import type { Reply } from '../reply.js';
import type { Job } from './job.js';

/** Longest payload of a BODY frame: small enough that one stream does not hold up the others. */
const BODY_FRAME_MAX = 65_536;
/** Pieces that are there at once are gathered up to this size before the head is sent. */
const GATHER_BYTES = 32_768;

/** Where the frames go. */
export interface FrameSink {
  /** The RESPONSE frame. */
  head(job: Job, reply: Reply, body: Uint8Array, end: boolean): void;
  body(job: Job, bytes: Uint8Array, end: boolean): void;
  /** Gives up a response whose head was sent. */
  reset(job: Job): void;
  /** Resolves when nothing waits in this process's memory. */
  idle(): Promise<void>;
}

/**
 * Streams the reply's pieces and ends the job. A body whose pieces are all there at once goes out in one frame. Rejects
 * when the first pieces fail and no head was sent: the caller can still answer with an error.
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
      sink.head(job, reply, Buffer.concat(gathered), true);
      return;
    }
    const bytes = pieceBytes(step.value, utf8);
    gathered.push(bytes);
    size += bytes.length;
    next = pieces.next();
  }
  // The loop below awaits it a little later; meanwhile a failure must not count as unhandled.
  next.catch(() => {});
  sink.head(job, reply, EMPTY, false);
  try {
    for (const bytes of gathered) await send(job, bytes, sink);
    for (;;) {
      const step = await unlessAborted(job, next);
      if (step === null || job.aborted) break;
      if (step.done === true) {
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

/** Cuts bytes into BODY frames, each as long as the window allows; returns early when the job is aborted. */
async function send(job: Job, bytes: Uint8Array, sink: FrameSink): Promise<void> {
  for (let at = 0; at < bytes.length && !job.aborted; ) {
    if (job.window === 0) {
      await new Promise<void>((resolve) => (job.wake = resolve));
      job.wake = null;
      continue;
    }
    const length = Math.min(bytes.length - at, job.window, BODY_FRAME_MAX - HEADER_BYTES);
    job.window -= length;
    sink.body(job, bytes.subarray(at, at + length), false);
    at += length;
    await sink.idle();
  }
}

/** The step if it settles before the event loop turns, otherwise null. */
function atOnce(step: Promise<IteratorResult<unknown>>): Promise<IteratorResult<unknown> | null> {
  return new Promise((resolve, reject) => {
    step.then(resolve, reject);
    setImmediate(resolve, null);
  });
}

/** The step, or null when the job is aborted first. */
function unlessAborted(
  job: Job,
  step: Promise<IteratorResult<unknown>>,
): Promise<IteratorResult<unknown> | null> {
  return new Promise((resolve, reject) => {
    job.wake = () => {
      if (job.aborted) resolve(null);
    };
    if (job.aborted) resolve(null);
    step.then(resolve, reject);
  });
}
