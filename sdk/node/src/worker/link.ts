/**
 * The stream between this worker and the server: whole frames come in, bytes go out. One interface over the two ways the
 * runtimes reach an inherited socket: `net.Socket` in Node, `Bun.connect` in Bun.
 */
import type { Handed } from '../handed.js';
import type { Bytes } from '../wire.js';

/** Bytes reserved at a time for what the server sends; received frames stay valid in there until nobody holds them. */
const SLAB_BYTES = 262_144;
/** Least room offered to a read; less than half a slab, so that doubling what is kept always gives it. */
const READ_MIN_BYTES = 65_536;

/** What the link tells its user. */
export interface LinkEvents {
  /**
   * Bytes from `at` to `end` of `bytes` hold frames, the last of them perhaps cut off. Returns where the first one that
   * is not whole begins. The bytes are never overwritten later.
   */
  frames(bytes: Bytes, at: number, end: number): number;
  /** All that was written has left this process; may also be called when nothing waited. */
  drained(): void;
  /** The server has closed the link, or it broke. */
  closed(): void;
}

export interface Link {
  /** Sends bytes, whose memory the link keeps until they have left. */
  write(bytes: Uint8Array): void;
  /** Bytes given to `write` that have not left this process. */
  readonly backlog: number;
  /** Sends a frame with the value that it has with it. */
  hand?(bytes: Uint8Array, handed: Handed): void;
  /** Takes a whole answer as it is, where the link has no use for a RESPONSE frame of it. */
  answer?(number: number, status: number, kind: number, headers: readonly string[], body: string | Uint8Array): void;
}

/** Opens the inherited socket `fd` in the way this runtime can. */
export async function openLink(fd: number, events: LinkEvents): Promise<Link> {
  return process.versions['bun'] === undefined ? openNode(fd, events) : openBun(fd, events);
}

/**
 * Receives into large slabs, each read behind the one before, so that a frame lies in one piece and is never copied
 * except when a slab ends within it.
 */
class Slabs {
  readonly #events: LinkEvents;
  #slab = Buffer.allocUnsafeSlow(SLAB_BYTES) as Bytes;
  /** The first byte that belongs to no frame handled yet. */
  #start = 0;
  /** The end of what was received. */
  #end = 0;

  constructor(events: LinkEvents) {
    this.#events = events;
  }

  /** Room for the next read, right behind the last one. */
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

  /** `count` bytes were received into the room. */
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

/** The part of Bun's TCP interface used here. */
interface BunSocket {
  /** Returns how many of the bytes were taken; the rest is the caller's until `drain`. */
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
  /** What no write has taken yet, oldest first. */
  const waiting: Uint8Array[] = [];
  let backlog = 0;
  /** The beginning of a frame whose end has not arrived; Bun's chunks are not overwritten either. */
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
