/**
 * Values that a thread and its pool give each other as they are, beside the bytes of a frame: what is shared, and what is moved without a copy.
 *
 * The body of such a message or reply is {@link HANDED_MARK} alone. The value comes with the very message of the port that the frame is, and is found by the memory of its bytes: when nobody has
 * those any more, it is gone, too.
 */
import type { TransferListItem } from 'node:worker_threads';

/** The body of a frame that has its value with it; no JSON and no structured clone begins with this byte. */
export const HANDED_MARK = 0xfe;

const MOVED = Symbol.for('forebay.moved');

/** A value on its way, and what goes with it for good. */
export class Handed {
  value: unknown;
  transfer: readonly TransferListItem[];
  /** Whether it was sent, and cannot be once more. */
  isSpent = false;

  constructor(value: unknown, transfer: readonly TransferListItem[]) {
    this.value = value;
    this.transfer = transfer;
  }

  /** Takes the value from whoever has given it. @throws what the runtime throws where it has no clone or cannot be transferred. */
  take(): void {
    const { value, transfer } = this;
    ({ value: this.value, transfer: this.transfer } = structuredClone({ value, transfer }, { transfer: [...transfer] as ArrayBuffer[] }));
  }

  /** Sends it with the bytes of its frame, which are given away. */
  post(port: { postMessage(message: unknown, transfer: readonly TransferListItem[]): void }, bytes: Uint8Array<ArrayBuffer>): void {
    const { value, transfer } = this;
    port.postMessage({ bytes, value }, [bytes.buffer, ...transfer]);
    if (transfer.length === 0) return;
    this.isSpent = true;
    this.value = undefined;
  }
}

/** A frame with its value, as it comes out of a port. */
export interface HandedFrame {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly value: unknown;
}

const received = new WeakMap<object, { readonly value: unknown }>();
const replies = new WeakMap<Uint8Array, Handed>();
let areHanded = false;

/** From now on replies of this thread may be handed over. */
export function handReplies(): void {
  areHanded = true;
}

/** Keeps a value with the bytes that it has come with, which it gives. */
export function unpack({ bytes, value }: HandedFrame): Uint8Array<ArrayBuffer> {
  received.set(bytes.buffer, { value });
  return bytes;
}

/** The value that came with these bytes. */
export function valueWith(bytes: Uint8Array): unknown {
  const found = received.get(bytes.buffer);
  if (found === undefined) throw new RangeError('it has a value with it that has not come');
  return found.value;
}

/** What {@link move} gives. */
export interface Moved<V = unknown> {
  readonly [MOVED]: { readonly value: V; readonly transfer: readonly TransferListItem[] };
}

/**
 * A reply whose buffers and ports go to whoever has sent the message, without a copy, when the handler runs in a thread; what is shared memory in it stays shared. In a process it is copied as
 * every reply.
 */
export function move<V>(value: V, transfer: readonly TransferListItem[] = []): V {
  // Whoever awaits the reply gets the value itself.
  return { [MOVED]: { value, transfer } } as unknown as V;
}

/** What a handler has given to {@link move}; `null` for any other reply. */
export function movedIn(reply: unknown): Moved[typeof MOVED] | null {
  if (typeof reply !== 'object' || reply === null || !(MOVED in reply)) return null;
  return (reply as Moved)[MOVED];
}

/** A reply as it is copied. */
export function unmoved(reply: unknown): unknown {
  const moved = movedIn(reply);
  return moved === null ? reply : moved.value;
}

/** The body of a reply that is handed over; `null` where replies are bytes. */
export function bodyOfMoved({ value, transfer }: Moved[typeof MOVED]): Uint8Array | null {
  if (!areHanded) return null;
  const handed = new Handed(value, transfer);
  handed.take();
  const body = Uint8Array.of(HANDED_MARK);
  replies.set(body, handed);
  return body;
}

/** What is handed over with such a body. */
export function handedWith(body: Uint8Array): Handed | undefined {
  return body.length === 1 ? replies.get(body) : undefined;
}
