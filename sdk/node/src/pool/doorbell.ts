/** The bell: a socket pair over which a worker signals that its outbox has new frames. */
import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import { pageAddon } from '../page-addon.js';

/** The bell of one worker process. */
export interface Bell {
  /** The `stdio` entry for `spawn`, which becomes the worker's end. */
  readonly stdio: number | 'pipe';
  /** Call after `spawn`. `own` is the stream that `spawn` made for the pool's end, or `null` if the pool has its own socket. */
  open(own: Socket | null, rung: () => void): Socket;
  /** Call instead of `open` if the worker could not be started. */
  close(): void;
}

/** Size of the read buffer. The bytes carry no information. */
const READ_BYTES = 64;

/**
 * Makes a bell. In Node it is a socket of our own with a single small read buffer: streams made by `spawn` allocate memory for each ring,
 * which costs an eighth of the time of a message that is sent on its own.
 */
export function newBell(): Bell {
  if (process.versions['bun'] !== undefined) return PIPE;
  let ours: number;
  let theirs: number;
  try {
    [ours, theirs] = pageAddon().socketPair();
  } catch {
    // Out of descriptors; `spawn` will report it in its own way.
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

/** A bell made by `spawn`. */
const PIPE: Bell = {
  stdio: 'pipe',
  open(own, rung) {
    own!.on('data', rung);
    own!.on('error', () => {});
    return own!;
  },
  // `spawn` closes this stream together with the others.
  close() {},
};
