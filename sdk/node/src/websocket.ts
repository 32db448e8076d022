/** WebSockets of handlers (RFC 6455): the server speaks the protocol, handlers get messages. */
import type { HttpRequest } from './request.js';
import { headerList, type HeadersLike } from './reply.js';
import { Upgrade } from './upgrade.js';

/** A message: text is a string. */
export type WebSocketMessage = string | Uint8Array;

/** One connection. */
export interface ServerWebSocket<Data = unknown> {
  /** Your own value: what {@link WebSocketInit.data} was. */
  data: Data;
  /** The request that opened it. */
  readonly request: HttpRequest;
  /** Bytes of messages that the client has not taken yet. */
  readonly bufferedAmount: number;
  /** Whether messages can still be sent. */
  readonly isOpen: boolean;
  /**
   * Sends a message: a string as text, bytes as binary. Returns whether the client takes messages as fast as they come; if not, wait for
   * `drain`. More than 16 MiB that the client does not take close the connection (1008). Once it is closed, nothing happens.
   */
  send(message: WebSocketMessage | ArrayBuffer): boolean;
  /** Closes the connection, by default with the code 1000. `reason` is text of at most 123 bytes. @throws RangeError for another code than 1000 to 1003, 1007 to 1014 and 3000 to 4999. */
  close(code?: number, reason?: string): void;
  /** Enters a room of the pool. `room` is a name of 1 to 256 bytes; a connection may be in 256 rooms. */
  join(room: string): void;
  /** Leaves a room. */
  leave(room: string): void;
  /** Sends a message to all others in a room, whichever worker they are connected to. */
  broadcast(room: string, message: WebSocketMessage | ArrayBuffer): void;
}

/** Callbacks of a handler for its connections. Each function may be asynchronous: the client's next message waits for it. One that throws closes the connection (1011). */
export interface WebSocketHandlers<Data = unknown> {
  /** The connection is open. */
  open?(socket: ServerWebSocket<Data>): unknown;
  /** The client has sent a message. */
  message?(socket: ServerWebSocket<Data>, message: WebSocketMessage): unknown;
  /** The client has taken what was sent, after {@link ServerWebSocket.send} has returned `false`. */
  drain?(socket: ServerWebSocket<Data>): unknown;
  /** The connection is closed. The codes are those of RFC 6455: 1005 when the client gave none, 1006 when it left without a word. */
  close?(socket: ServerWebSocket<Data>, code: number, reason: string): unknown;
}

/** Options of {@link websocket}. */
export interface WebSocketInit<Data = unknown> {
  /** The first value of {@link ServerWebSocket.data}. */
  data?: Data;
  /** The subprotocol, one of those that the client offers in `sec-websocket-protocol`. */
  protocol?: string | undefined;
  /** Header fields of the response, such as `set-cookie`. */
  headers?: HeadersLike | undefined;
}

/** The answer of {@link websocket}. */
export class WebSocketUpgrade extends Upgrade {
  /** @internal */
  readonly handlers: WebSocketHandlers<unknown>;
  /** @internal */
  readonly data: unknown;

  /** @internal */
  constructor(handlers: WebSocketHandlers<unknown>, headers: readonly string[], data: unknown) {
    super(headers);
    this.handlers = handlers;
    this.data = data;
  }
}

/**
 * Accepts a WebSocket. The connection does not count against the pool's `concurrency` and has no time limit. A request that asks for no
 * WebSocket is answered 400.
 *
 * ```js
 * app.get('/chat/:room', (request) => websocket({
 *   open: (socket) => socket.join(request.params.room),
 *   message: (socket, text) => socket.broadcast(request.params.room, text),
 * }));
 * ```
 */
export function websocket<Data = unknown>(handlers: WebSocketHandlers<Data>, init: WebSocketInit<Data> = {}): WebSocketUpgrade {
  const headers = [...(init.headers === undefined ? [] : headerList(init.headers))];
  if (init.protocol !== undefined) headers.push(...headerList({ 'sec-websocket-protocol': init.protocol }));
  return new WebSocketUpgrade(handlers as WebSocketHandlers<unknown>, headers, init.data);
}

type Publish = (room: string, message: WebSocketMessage | ArrayBuffer) => void;
let publish: Publish | null = null;

/**
 * Sends a message to all WebSockets in a room of the pool, whichever worker they are connected to.
 * @throws TypeError outside of a worker of the server.
 */
export function broadcast(room: string, message: WebSocketMessage | ArrayBuffer): void {
  if (publish === null) throw new TypeError('rooms are those of a pool of the server (`[pool.NAME]`): this process is not one of its workers');
  publish(room, message);
}

/** Sets what {@link broadcast} does. @internal */
export function setPublish(value: Publish): void {
  publish = value;
}
