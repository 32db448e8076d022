/** The doorbell: a socket pair over which a worker signals that its outbox has new frames. */
import { closeSync } from 'node:fs';
import { Socket } from 'node:net';
import { pageAddon } from '../page-addon.js';

/** The doorbell of one worker process. */
export interface Doorbell {
  /** The `stdio` entry for `spawn`, which becomes the worker's end. */
  readonly stdio: number | 'pipe';
  /** Call after `spawn`. `own` is the stream that `spawn` made for the pool's end, or `null` if the pool has its own socket. */
  open(own: Socket | null, onRing: () => void): Socket;
  /** Call instead of `open` if the worker could not be started. */
  close(): void;
}

/** Size of the read buffer. The bytes carry no information. */
const READ_BYTES = 64;

/**
 * Makes a doorbell. In Node it is a socket of our own with a single small read buffer: streams made by `spawn` allocate memory for each ring,
 * which costs an eighth of the time of a message that is sent on its own.
 */
export function newDoorbell(): Doorbell {
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
    open(_, onRing) {
      closeSync(theirs);
      const onread = {
        buffer: Buffer.alloc(READ_BYTES),
        callback() {
          onRing();
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

/** A doorbell made by `spawn`. */
const PIPE: Doorbell = {
  stdio: 'pipe',
  open(own, onRing) {
    own!.on('data', onRing);
    own!.on('error', () => {});
    return own!;
  },
  // `spawn` closes this stream together with the others.
  close() {},
};
