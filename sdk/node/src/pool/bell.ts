/** The bell that a worker rings when it has put something into its outbox: one end of a socket is the pool's. */
import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import { pageAddon } from '../page-addon.js';

/** What a worker's process is started with for its bell. */
export interface Bell {
  /** What `spawn` takes for the worker's descriptor. */
  readonly stdio: number | 'pipe';
  /** The worker has its end: `own` is what `spawn` has made for the pool, `null` where the pool has one already. */
  open(own: Socket | null, rung: () => void): Socket;
  /** The worker never came to be. */
  close(): void;
}

/** What is read says nothing. */
const READ_BYTES = 64;

/**
 * A bell. In Node it is a socket of our own, into whose one small buffer everything is read: streams that `spawn` makes take new memory for each ring, which costs an eighth of what a message costs that waits for no
 * other.
 */
export function newBell(): Bell {
  if (process.versions['bun'] !== undefined) return PIPE;
  let ours: number;
  let theirs: number;
  try {
    [ours, theirs] = pageAddon().socketPair();
  } catch {
    // There is no descriptor left: `spawn` says so in its own way.
    return PIPE;
  }
  return {
    stdio: theirs,
    open(_, rung) {
      closeSync(theirs);
      const onread = {
        buffer: Buffer.alloc(READ_BYTES),
        callback() {
          rung();
          return true;
        },
      };
      const socket = new Socket({ fd: ours, readable: true, writable: false, onread } as ConstructorParameters<typeof Socket>[0]);
      socket.on('error', () => {});
      socket.resume();
      return socket;
    },
    close() {
      closeSync(theirs);
      closeSync(ours);
    },
  };
}

/** As `spawn` makes it. */
const PIPE: Bell = {
  stdio: 'pipe',
  open(own, rung) {
    own!.on('data', rung);
    own!.on('error', () => {});
    return own!;
  },
  // What `spawn` has made is closed with its other streams.
  close() {},
};
