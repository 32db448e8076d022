/**
 * Values passed between a pool and its worker threads without serialization: shared memory stays shared, and transferred buffers move
 * without a copy.
 *
 * The body of such a message or reply is {@link TRANSFER_MARK} alone. The value travels in the same `postMessage` as the frame and is looked
 * up by the frame's buffer, so it is garbage-collected with that buffer.
 */
import type { TransferListItem } from 'node:worker_threads';

/** The body of a frame that comes with a value; no JSON text and no structured clone begins with this byte. */
export const TRANSFER_MARK = 0xfe;

const MOVED = Symbol.for('forebay.moved');

/** A value to be posted, and its transfer list. */
export class Transfer {
  value: unknown;
  transfer: readonly TransferListItem[];
  /** Whether it was posted with a transfer list, and so cannot be posted again. */
  isSpent = false;

  constructor(value: unknown, transfer: readonly TransferListItem[]) {
    this.value = value;
    this.transfer = transfer;
  }

  /** Clones the value and transfers what is on the list, so the caller loses it now. @throws DataCloneError as `structuredClone` does. */
  take(): void {
    const { value, transfer } = this;
    ({ value: this.value, transfer: this.transfer } = structuredClone({ value, transfer }, { transfer: [...transfer] as ArrayBuffer[] }));
  }

  /** Posts the value with its frame, whose buffer is transferred. */
  post(port: { postMessage(message: unknown, transfer: readonly TransferListItem[]): void }, bytes: Uint8Array<ArrayBuffer>): void {
    const { value, transfer } = this;
    port.postMessage({ bytes, value }, [bytes.buffer, ...transfer]);
    if (transfer.length === 0) return;
    this.isSpent = true;
    this.value = undefined;
  }
}

/** A frame and its value, as received from a port. */
export interface TransferFrame {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly value: unknown;
}

const received = new WeakMap<object, { readonly value: unknown }>();
const replies = new WeakMap<Uint8Array, Transfer>();
let transfersReplies = false;

/** Lets this thread transfer replies; processes always copy them. */
export function enableReplyTransfer(): void {
  transfersReplies = true;
}

/** Remembers the value that arrived with a frame; returns the frame's bytes. */
export function unpack({ bytes, value }: TransferFrame): Uint8Array<ArrayBuffer> {
  received.set(bytes.buffer, { value });
  return bytes;
}

/** The value that arrived with these bytes. @throws RangeError if there is none. */
export function valueWith(bytes: Uint8Array): unknown {
  const found = received.get(bytes.buffer);
  if (found === undefined) throw new RangeError('the transferred value of this frame did not arrive');
  return found.value;
}

/** The wrapper that {@link move} returns. */
export interface Moved<V = unknown> {
  readonly [MOVED]: { readonly value: V; readonly transfer: readonly TransferListItem[] };
}

/**
 * Marks a reply whose buffers and ports are transferred to the sender of the message instead of being copied, if the handler runs in a
 * thread; shared memory stays shared. In a process, the reply is copied like any other.
 */
export function move<V>(value: V, transfer: readonly TransferListItem[] = []): V {
  // Typed as the value, because that is what the sender of the message receives.
  return { [MOVED]: { value, transfer } } as unknown as V;
}

/** The content of the wrapper made by {@link move}; `null` for any other reply. */
export function moveOf(reply: unknown): Moved[typeof MOVED] | null {
  if (typeof reply !== 'object' || reply === null || !(MOVED in reply)) return null;
  return (reply as Moved)[MOVED];
}

/** The reply itself, without the wrapper of {@link move}. */
export function withoutMove(reply: unknown): unknown {
  const moved = moveOf(reply);
  return moved === null ? reply : moved.value;
}

/** The body of a transferred reply; `null` in a process, where replies are copied. */
export function transferBody({ value, transfer }: Moved[typeof MOVED]): Uint8Array | null {
  if (!transfersReplies) return null;
  const outgoing = new Transfer(value, transfer);
  outgoing.take();
  const body = Uint8Array.of(TRANSFER_MARK);
  replies.set(body, outgoing);
  return body;
}

/** The value to be posted with this body, if any. */
export function transferOf(body: Uint8Array): Transfer | undefined {
  return body.length === 1 ? replies.get(body) : undefined;
}
