/** One WebSocket in a worker: flow control in both directions, and the calls of its handlers, one at a time. */
import { isPromise } from '../outcome.js';
import type { HttpRequest } from '../request.js';
import type { ServerWebSocket, WebSocketHandlers, WebSocketMessage } from '../websocket.js';
import { CLOSE, END, FRAME_PAYLOAD_MAX, HEADER_BYTES, JOIN, LEAVE, MESSAGE, PUBLISH, TEXT, WINDOW, writeU32, type Bytes } from '../wire.js';
import type { Job } from './job.js';

/** Bytes of messages that the server may send ahead of the handlers. */
const RECEIVE_WINDOW_BYTES = 262_144;
/** Bytes of messages that may wait for the client; more close the connection. */
const UNSENT_BYTES_MAX = 16 * 1024 * 1024;
/** Longest piece of a message. */
const PIECE_MAX = 65_536;
const ROOM_BYTES_MAX = 256;
const REASON_BYTES_MAX = 123;

const INTERNAL_ERROR = 1011;
const POLICY = 1008;
const NO_CODE = 1005;
const ABNORMAL = 1006;
export const SERVICE_RESTART = 1012;

/** The functions that a socket needs of its worker. */
export interface SocketOwner {
  /** Sends a frame about the job. */
  socketFrame(job: Job, type: number, flags: number, payload: Uint8Array): void;
  /** Sends a message to all in a room. */
  publish(room: string, message: WebSocketMessage | ArrayBuffer): void;
  /** Calls a function of the handler as part of the job. */
  within<T>(job: Job, run: () => T): T;
  /** The job is over. */
  socketClosed(job: Job): void;
  reportSocket(job: Job, error: unknown): void;
}

/** Something that happened, for a handler. */
type Event = { readonly name: 'open' | 'drain' } | { readonly name: 'message'; readonly message: WebSocketMessage; readonly cost: number } | { readonly name: 'close'; readonly code: number; readonly reason: string };

export class Socket implements ServerWebSocket {
  data: unknown;
  readonly #owner: SocketOwner;
  readonly #job: Job;
  readonly #handlers: WebSocketHandlers;
  /** Events that wait for the handler that is running. */
  readonly #events: Event[] = [];
  #isBusy = false;
  #isOpen = true;
  /** Pieces of a message whose end has not arrived. */
  #parts: Uint8Array[] = [];
  #cost = 0;
  /** Bytes that the handlers are done with and the server has not been told of. */
  #done = 0;
  /** Messages that the client has no room for. */
  readonly #unsent: { bytes: Uint8Array; readonly flags: number }[] = [];
  #bufferedAmount = 0;
  #isSlow = false;

  constructor(owner: SocketOwner, job: Job, handlers: WebSocketHandlers, data: unknown) {
    this.#owner = owner;
    this.#job = job;
    this.#handlers = handlers;
    this.data = data;
    job.wake = () => this.#wake();
  }

  /** Begins to receive. */
  open(): void {
    this.#grant(RECEIVE_WINDOW_BYTES);
    this.#dispatch({ name: 'open' });
  }

  get request(): HttpRequest {
    return this.#job.request;
  }

  get bufferedAmount(): number {
    return this.#bufferedAmount;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  send(message: WebSocketMessage | ArrayBuffer): boolean {
    if (!this.#isOpen) return false;
    const bytes = bytesOf(message);
    this.#unsent.push({ bytes, flags: textFlag(message) });
    this.#bufferedAmount += bytes.length;
    this.#flush();
    const last = this.#unsent.at(-1);
    // The caller may use its buffer again.
    if (last !== undefined && typeof message !== 'string') last.bytes = Buffer.from(last.bytes);
    if (this.#bufferedAmount > UNSENT_BYTES_MAX) {
      this.#owner.reportSocket(this.#job, new Error(`the client takes its messages too slowly: ${this.#bufferedAmount} bytes wait (at most ${UNSENT_BYTES_MAX})`));
      this.close(POLICY, 'messages are taken too slowly');
    }
    this.#isSlow = this.#bufferedAmount > 0;
    return !this.#isSlow;
  }

  close(code = 1000, reason = ''): void {
    const isAllowed = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014) || (code >= 3000 && code <= 4999);
    if (!Number.isInteger(code) || !isAllowed) throw new RangeError(`a WebSocket is closed with 1000 to 1003, 1007 to 1014 or 3000 to 4999, not ${code}`);
    const text = Buffer.from(reason);
    if (text.length > REASON_BYTES_MAX) throw new RangeError(`the reason of a close has at most ${REASON_BYTES_MAX} bytes, not ${text.length}`);
    if (!this.#isOpen) return;
    // Messages that the client has no room for are lost, as with a connection that breaks.
    const payload = Buffer.allocUnsafe(2 + text.length);
    payload.writeUInt16LE(code);
    payload.set(text, 2);
    this.#owner.socketFrame(this.#job, CLOSE, 0, payload);
    this.#end(code, reason);
  }

  join(room: string): void {
    if (this.#isOpen) this.#owner.socketFrame(this.#job, JOIN, 0, roomBytes(room));
  }

  leave(room: string): void {
    if (this.#isOpen) this.#owner.socketFrame(this.#job, LEAVE, 0, roomBytes(room));
  }

  broadcast(room: string, message: WebSocketMessage | ArrayBuffer): void {
    // A closed socket is in no room, so there is no member to leave out.
    if (this.#isOpen) this.#owner.socketFrame(this.#job, PUBLISH, textFlag(message), publishPayload(room, message));
    else this.#owner.publish(room, message);
  }

  /** A MESSAGE frame has arrived. */
  receive(bytes: Bytes, flags: number): void {
    this.#cost += bytes.length + HEADER_BYTES;
    const end = (flags & END) !== 0;
    if (!end || this.#parts.length > 0) this.#parts.push(bytes);
    if (!end) {
      // The rest may be longer than the window.
      this.#grant(bytes.length + HEADER_BYTES);
      this.#cost -= bytes.length + HEADER_BYTES;
      return;
    }
    const whole = this.#parts.length === 0 ? bytes : (Buffer.concat(this.#parts.splice(0)) as Bytes);
    const message = (flags & TEXT) === 0 ? whole : whole.utf8Slice(0, whole.length);
    const cost = this.#cost;
    this.#cost = 0;
    this.#dispatch({ name: 'message', message, cost });
  }

  /** A CLOSE frame has arrived. */
  closed(code: number, reason: string): void {
    if (this.#isOpen) this.#end(code, reason);
  }

  #end(code: number, reason: string): void {
    this.#isOpen = false;
    this.#unsent.length = 0;
    this.#bufferedAmount = 0;
    this.#owner.socketClosed(this.#job);
    this.#dispatch({ name: 'close', code, reason });
  }

  /** The window has grown, or the job was aborted. */
  #wake(): void {
    if (this.#job.aborted) {
      this.closed(this.#job.isStopped ? SERVICE_RESTART : ABNORMAL, '');
      return;
    }
    this.#flush();
    if (this.#isSlow && this.#bufferedAmount === 0) {
      this.#isSlow = false;
      this.#dispatch({ name: 'drain' });
    }
  }

  #flush(): void {
    const job = this.#job;
    for (let first; (first = this.#unsent[0]) !== undefined && job.window >= HEADER_BYTES; ) {
      const length = Math.min(first.bytes.length, job.window - HEADER_BYTES, PIECE_MAX);
      if (length === 0 && first.bytes.length > 0) return;
      const end = length === first.bytes.length;
      job.window -= length + HEADER_BYTES;
      this.#bufferedAmount -= length;
      this.#owner.socketFrame(job, MESSAGE, first.flags | (end ? END : 0), first.bytes.subarray(0, length));
      if (end) this.#unsent.shift();
      else first.bytes = first.bytes.subarray(length);
    }
  }

  #dispatch(event: Event): void {
    this.#events.push(event);
    if (!this.#isBusy) this.#run();
  }

  /** Calls the handlers of all waiting events, until one is asynchronous. */
  #run(): void {
    this.#isBusy = true;
    for (let event; (event = this.#events.shift()) !== undefined; ) {
      const current = event;
      let result: unknown;
      try {
        result = this.#owner.within(this.#job, () => this.#call(current));
      } catch (error) {
        this.#failed(error);
      }
      if (isPromise(result)) {
        Promise.resolve(result).then(
          () => this.#continue(current),
          (error: unknown) => {
            this.#failed(error);
            this.#continue(current);
          },
        );
        return;
      }
      this.#settle(current);
    }
    this.#isBusy = false;
  }

  #continue(event: Event): void {
    this.#settle(event);
    this.#run();
  }

  #call(event: Event): unknown {
    const handlers = this.#handlers;
    if (event.name === 'message') return handlers.message?.(this, event.message);
    if (event.name === 'close') return handlers.close?.(this, event.code, event.reason);
    return handlers[event.name]?.(this);
  }

  /** A handler is done with a message: the server may send as many bytes again. */
  #settle(event: Event): void {
    if (event.name !== 'message' || !this.#isOpen) return;
    this.#done += event.cost;
    if (this.#done * 2 < RECEIVE_WINDOW_BYTES) return;
    this.#grant(this.#done);
    this.#done = 0;
  }

  #grant(bytes: number): void {
    const payload = Buffer.allocUnsafe(4);
    writeU32(payload, 0, bytes);
    this.#owner.socketFrame(this.#job, WINDOW, 0, payload);
  }

  #failed(error: unknown): void {
    this.#owner.reportSocket(this.#job, error);
    this.close(INTERNAL_ERROR, 'the handler failed');
  }
}

/** The code and the reason in the payload of a CLOSE frame. */
export function readClose(bytes: Bytes): { code: number; reason: string } {
  if (bytes.length < 2) return { code: NO_CODE, reason: '' };
  return { code: bytes[0]! | (bytes[1]! << 8), reason: bytes.utf8Slice(2, bytes.length) };
}

/** The payload of a PUBLISH frame. @throws RangeError if it is too long for a frame. */
export function publishPayload(room: string, message: WebSocketMessage | ArrayBuffer): Uint8Array {
  const name = roomBytes(room);
  const bytes = bytesOf(message);
  const length = 4 + name.length + bytes.length;
  if (length > FRAME_PAYLOAD_MAX) throw new RangeError(`a message to a room has at most ${FRAME_PAYLOAD_MAX - 4 - name.length} bytes, not ${bytes.length}`);
  const payload = Buffer.allocUnsafe(length);
  writeU32(payload, 0, name.length);
  payload.set(name, 4);
  payload.set(bytes, 4 + name.length);
  return payload;
}

export function textFlag(message: WebSocketMessage | ArrayBuffer): number {
  return typeof message === 'string' ? TEXT : 0;
}

function roomBytes(room: string): Uint8Array {
  const bytes = Buffer.from(room);
  if (bytes.length < 1 || bytes.length > ROOM_BYTES_MAX) throw new RangeError(`the name of a room has 1 to ${ROOM_BYTES_MAX} bytes, not ${bytes.length}`);
  return bytes;
}

function bytesOf(message: WebSocketMessage | ArrayBuffer): Uint8Array {
  if (typeof message === 'string') return Buffer.from(message);
  if (message instanceof Uint8Array) return message;
  if (message instanceof ArrayBuffer) return new Uint8Array(message);
  throw new TypeError(`a message is a string, a Uint8Array or an ArrayBuffer, not ${typeof message}`);
}
