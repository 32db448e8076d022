/**
 * Standard input and output as a link to the server. Whatever else prints to standard output, handlers and their libraries, gets standard
 * error in its place, which the server logs.
 */
import { constants, openSync, readSync, writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import type { Bytes } from '../wire.js';
import type { Link, LinkEvents } from '../worker/link.js';

const STDIN = 0;
const STDOUT = 1;
/** Bytes that a read asks for while the event loop stands still. */
const READ_BYTES = 65_536;
/** How long a write or a read that finds the pipe full or empty waits before it looks again, where nothing can wait for it. */
const PAUSE_MS = 0.5;

interface Addon {
  waitReadable(fd: number, ms: number): boolean;
}

/** The server's end of both pipes. */
export interface Pipes {
  /** Writes now, all of it: the server reads always. */
  write(bytes: Uint8Array): void;
  /** What comes next, while the event loop stands still; `null` when nothing has come by `until`, a time of `performance.now()`. Empty at the end. */
  readNow(until: number): Uint8Array | null;
}

/** What comes in while the event loop runs. */
export interface PipeEvents {
  /** Bytes that are nobody else's from now on. */
  bytes(bytes: Bytes): void;
  /** Nothing more will come. */
  ended(): void;
}

/** Takes standard input and output. Once in a process. */
export function openPipes(events: PipeEvents): Pipes {
  // Opened anew, so that nobody else decides whether writing and reading wait.
  const output = own(STDOUT, constants.O_WRONLY | constants.O_APPEND);
  let input: number | null = null;
  divertOutput();
  process.stdin.on('data', (chunk: Bytes) => events.bytes(chunk));
  for (const event of ['end', 'close', 'error']) process.stdin.on(event, () => events.ended());
  const pause = new Int32Array(new SharedArrayBuffer(4));
  const buffer = Buffer.allocUnsafeSlow(READ_BYTES);
  const addon = loadAddon();

  function wait(ms: number): void {
    Atomics.wait(pause, 0, 0, ms);
  }

  /** Waits until there may be something to read; `false` when nothing has come by `until`. */
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
      // First waited for: a descriptor that could not be opened anew may be one that blocks.
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

/** A link of frames over the pipes. What is written in one turn of the event loop leaves in one write. */
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

  // Whatever waits when the process ends leaves then.
  process.on('exit', flush);
  return {
    backlog: 0,
    write(bytes) {
      if (waiting.push(bytes) === 1) process.nextTick(flush);
    },
  };
}

/** A descriptor of our own for what a standard one leads to. */
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

function loadAddon(): Addon | null {
  try {
    const addon = createRequire(import.meta.url)('../forebay.node') as Partial<Addon>;
    return typeof addon.waitReadable === 'function' ? (addon as Addon) : null;
  } catch {
    return null;
  }
}

/** Has `process.stdout` and the console write to standard error. */
function divertOutput(): void {
  Object.defineProperty(process, 'stdout', { configurable: true, enumerable: true, get: () => process.stderr });
  // Bun's console writes to the descriptor itself.
  if (process.versions['bun'] === undefined) return;
  const { error } = console;
  for (const name of ['log', 'info', 'debug', 'table', 'dir'] as const) console[name] = error.bind(console);
}
