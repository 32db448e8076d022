/**
 * The stream between this worker and the server: whole frames are received, bytes are sent. A common interface for the
 * runtimes' ways to use an inherited socket: `net.Socket` in Node, `Bun.connect` in Bun.
 */
import type { Transfer } from '../transfer.js';
import type { Bytes } from '../wire.js';

/** Size of a receive buffer. Received frames stay in it, and it is garbage-collected with the last of them. */
const SLAB_BYTES = 262_144;
/** Minimum room for a read; less than half a slab, so that doubling the kept bytes always leaves enough. */
const READ_MIN_BYTES = 65_536;

/** Events of a link. */
export interface LinkEvents {
  /**
   * Frames were received in `bytes` from `at` to `end`; the last one may be incomplete. Returns the start of the first
   * incomplete frame. The bytes are never overwritten later.
   */
  frames(bytes: Bytes, at: number, end: number): number;
  /** All written bytes have been sent; may also be called if none were waiting. */
  drained(): void;
  /** The server has closed the link, or it broke. */
  closed(): void;
}

export interface Link {
  /** Sends bytes; the link owns the buffer until they are sent. */
  write(bytes: Uint8Array): void;
  /** Written bytes that have not been sent yet. */
  readonly backlog: number;
  /** Sends a frame together with a value. */
  postTransfer?(bytes: Uint8Array, transfer: Transfer): void;
  /** Sends a complete response directly, on links without RESPONSE frames. */
  answer?(number: number, status: number, kind: number, headers: readonly string[], body: string | Uint8Array): void;
}

/** Opens the inherited socket `fd` in the way this runtime supports. */
export async function openLink(fd: number, events: LinkEvents): Promise<Link> {
  return process.versions['bun'] === undefined ? openNode(fd, events) : openBun(fd, events);
}

/**
 * Receives into large buffers, each read directly after the previous one, so that a frame is contiguous and is copied
 * only if a buffer ends within it.
 */
class Slabs {
  readonly #events: LinkEvents;
  #slab = Buffer.allocUnsafeSlow(SLAB_BYTES) as Bytes;
  /** The first byte that has not been handled as part of a frame. */
  #start = 0;
  /** The end of the received bytes. */
  #end = 0;

  constructor(events: LinkEvents) {
    this.#events = events;
  }

  /** Room for the next read, directly after the last one. */
  room(): Uint8Array {
    if (this.#slab.length - this.#end < READ_MIN_BYTES) {
      const partial = this.#end - this.#start;
      const slab = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, partial * 2)) as Bytes;
      this.#slab.copy(slab, 0, this.#start, this.#end);
      this.#slab = slab;
      this.#start = 0;
      this.#end = partial;
    }
    return this.#slab.subarray(this.#end);
  }

  /** Call after `count` bytes were received into the room. */
  filled(count: number): void {
    this.#end += count;
    this.#start = this.#events.frames(this.#slab, this.#start, this.#end);
  }
}

async function openNode(fd: number, events: LinkEvents): Promise<Link> {
  const { Socket } = await import('node:net');
  const slabs = new Slabs(events);
  const socket = new Socket({
    fd,
    readable: true,
    writable: true,
    onread: {
      buffer: () => slabs.room(),
      callback: (count: number) => {
        slabs.filled(count);
        return true;
      },
    },
  } as ConstructorParameters<typeof Socket>[0]);
  socket.on('end', () => events.closed());
  socket.on('close', () => events.closed());
  socket.on('error', () => events.closed());
  socket.resume();
  const written = () => {
    if (socket.writableLength === 0) events.drained();
  };
  return {
    get backlog() {
      return socket.writableLength;
    },
    write(bytes) {
      socket.write(bytes, written);
    },
  };
}

/** The part of Bun's TCP interface that is used here. */
interface BunSocket {
  /** Returns how many bytes were taken; the caller keeps the rest until `drain`. */
  write(bytes: Uint8Array): number;
}
declare const Bun: {
  connect(options: {
    fd: number;
    socket: {
      data(socket: BunSocket, chunk: Bytes): void;
      drain(socket: BunSocket): void;
      close(socket: BunSocket): void;
      end(socket: BunSocket): void;
      error(socket: BunSocket, error: Error): void;
    };
  }): Promise<BunSocket>;
};

async function openBun(fd: number, events: LinkEvents): Promise<Link> {
  /** Bytes not taken by a write yet, oldest first. */
  const waiting: Uint8Array[] = [];
  let backlog = 0;
  /** The start of an incomplete frame; Bun does not reuse its chunks either. */
  let partial: Bytes | null = null;

  function received(chunk: Bytes): void {
    let bytes = chunk;
    if (partial !== null) {
      bytes = Buffer.concat([partial, chunk]) as Bytes;
      partial = null;
    }
    const rest = events.frames(bytes, 0, bytes.length);
    if (rest < bytes.length) partial = bytes.subarray(rest) as Bytes;
  }

  function flush(socket: BunSocket): void {
    while (waiting.length > 0) {
      const bytes = waiting[0]!;
      const taken = Math.max(0, socket.write(bytes));
      backlog -= taken;
      if (taken < bytes.length) {
        waiting[0] = bytes.subarray(taken);
        return;
      }
      waiting.shift();
    }
    events.drained();
  }

  const socket = await Bun.connect({
    fd,
    socket: {
      data: (_, chunk) => received(chunk),
      drain: flush,
      close: () => events.closed(),
      end: () => events.closed(),
      error: () => events.closed(),
    },
  });
  return {
    get backlog() {
      return backlog;
    },
    write(bytes) {
      if (backlog > 0) {
        waiting.push(bytes);
        backlog += bytes.length;
        return;
      }
      const taken = Math.max(0, socket.write(bytes));
      if (taken < bytes.length) {
        waiting.push(bytes.subarray(taken));
        backlog = bytes.length - taken;
      }
    },
  };
}
