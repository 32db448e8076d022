/**
 * Standard input and output as a link to the server. Anything else that prints to standard output (handlers, libraries) is redirected to
 * standard error, which the server logs.
 */
import { constants, openSync, readSync, writeSync } from 'node:fs';
import { loadAddon } from '../platform.js';
import type { Bytes } from '../wire.js';
import type { Link, LinkEvents } from '../worker/link.js';

const STDIN = 0;
const STDOUT = 1;
/** Size of a blocking read. */
const READ_BYTES = 65_536;
/** Delay between attempts to read from an empty or write to a full pipe, if the addon for waiting is not available. */
const PAUSE_MS = 0.5;

interface Addon {
  waitReadable(fd: number, ms: number): boolean;
}

/** Synchronous access to both pipes. */
export interface Pipes {
  /** Writes all bytes, blocking if the pipe is full; the server always reads. */
  write(bytes: Uint8Array): void;
  /**
   * Reads the next bytes while blocking the event loop; `null` if none arrive before `until`, a time of `performance.now()`. Empty at the
   * end of input.
   */
  readNow(until: number): Uint8Array | null;
}

/** Events of the input while the event loop runs. */
export interface PipeEvents {
  /** Bytes were received; the buffer is not reused. */
  bytes(bytes: Bytes): void;
  /** The input has ended. */
  ended(): void;
}

/** Takes over standard input and output. Call it once per process. */
export function openPipes(events: PipeEvents): Pipes {
  // Opened again, because the blocking mode of the inherited descriptor is shared with other processes.
  const output = own(STDOUT, constants.O_WRONLY | constants.O_APPEND);
  let input: number | null = null;
  divertOutput();
  process.stdin.on('data', (chunk: Bytes) => events.bytes(chunk));
  for (const event of ['end', 'close', 'error']) process.stdin.on(event, () => events.ended());
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  const addon = pipeAddon();

  function wait(ms: number): void {
    Atomics.wait(pause, 0, 0, ms);
  }

  /** Waits until there may be something to read; `false` if `until` has passed. */
  function isReadable(fd: number, until: number): boolean {
    const left = until - performance.now();
    if (left <= 0) return false;
    if (addon !== null) return addon.waitReadable(fd, Math.ceil(left));
    wait(Math.min(PAUSE_MS, left));
    return true;
  }

  return {
    write(bytes) {
      for (let at = 0; at < bytes.length; ) {
        try {
          at += writeSync(output, bytes, at);
        } catch (error) {
          if (!isAgain(error)) {
            events.ended();
            return;
          }
          wait(PAUSE_MS);
        }
      }
    },
    readNow(until) {
      input ??= own(STDIN, constants.O_RDONLY | constants.O_NONBLOCK);
      // Wait before reading: if the descriptor could not be opened again, it may be in blocking mode.
      do {
        if (!isReadable(input, until)) continue;
        try {
          const count = readSync(input, buffer, 0, READ_BYTES, null);
          return Uint8Array.prototype.slice.call(buffer, 0, count);
        } catch (error) {
          if (!isAgain(error)) throw error;
        }
      } while (performance.now() < until);
      return null;
    },
  };
}

/** A link for frames over the pipes. All writes of one turn of the event loop are combined into one. */
export function openPipeLink(events: LinkEvents): Link {
  let partial: Bytes | null = null;
  let waiting: Uint8Array[] = [];
  const pipes = openPipes({
    bytes(chunk) {
      const bytes = partial === null ? chunk : (Buffer.concat([partial, chunk]) as Bytes);
      const rest = events.frames(bytes, 0, bytes.length);
      partial = rest < bytes.length ? (bytes.subarray(rest) as Bytes) : null;
      flush();
    },
    ended: () => events.closed(),
  });

  function flush(): void {
    if (waiting.length === 0) return;
    const all = waiting.length === 1 ? waiting[0]! : Buffer.concat(waiting);
    waiting = [];
    pipes.write(all);
  }

  // Sends whatever is still queued when the process exits.
  process.on('exit', flush);
  return {
    backlog: 0,
    write(bytes) {
      if (waiting.push(bytes) === 1) process.nextTick(flush);
    },
  };
}

/** Opens the file behind a standard descriptor again; returns the descriptor itself if that fails. */
function own(fd: number, flags: number): number {
  try {
    return openSync(`/proc/self/fd/${fd}`, flags);
  } catch {
    return fd;
  }
}

function isAgain(error: unknown): boolean {
  const code = (error as { code?: unknown }).code;
  return code === 'EAGAIN' || code === 'EWOULDBLOCK' || code === 'EINTR';
}

function pipeAddon(): Addon | null {
  try {
    const addon = loadAddon() as Partial<Addon>;
    return typeof addon.waitReadable === 'function' ? (addon as Addon) : null;
  } catch {
    return null;
  }
}

/** Redirects `process.stdout` and the console to standard error. */
function divertOutput(): void {
  Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, get: () => process.stderr });
  // Bun's console writes directly to the descriptor.
  if (process.versions['bun'] === undefined) return;
  const { error } = console;
  for (const name of ['log', 'info', 'debug', 'table', 'dir'] as const) console[name] = error.bind(console);
}
