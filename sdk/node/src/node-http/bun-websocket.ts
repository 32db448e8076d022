/** WebSockets of `Bun.serve`, as its applications know them: `server.upgrade`, and sockets that subscribe to topics, which are rooms of the pool. */
import { broadcast, websocket, type ServerWebSocket, type WebSocketMessage, type WebSocketUpgrade } from '../websocket.js';
import type { HeadersLike } from '../reply.js';

type Data = string | ArrayBuffer | ArrayBufferView;

/** The option `websocket` of `Bun.serve`, and of a default export. */
export interface BunWebSocketHandlers {
  readonly open?: (socket: BunWebSocket) => unknown;
  readonly message?: (socket: BunWebSocket, message: WebSocketMessage) => unknown;
  readonly drain?: (socket: BunWebSocket) => unknown;
  readonly close?: (socket: BunWebSocket, code: number, reason: string) => unknown;
}

/** Options of `server.upgrade`. */
export interface BunUpgradeOptions {
  readonly data?: unknown;
  readonly headers?: HeadersLike;
}

const OPEN = 1;
const CLOSED = 3;

/** A socket as Bun's handlers get it. */
export class BunWebSocket {
  data: unknown;
  /** Messages of bytes are always a `Buffer`. */
  binaryType = 'nodebuffer';
  readonly #socket: ServerWebSocket;
  readonly #topics = new Set<string>();

  constructor(socket: ServerWebSocket) {
    this.#socket = socket;
    this.data = socket.data;
  }

  get readyState(): number {
    return this.#socket.isOpen ? OPEN : CLOSED;
  }

  get remoteAddress(): string {
    return this.#socket.request.ip;
  }

  get subscriptions(): string[] {
    return [...this.#topics];
  }

  /** Returns the bytes sent, -1 if some of them wait for the client, 0 if the socket is closed. */
  send(message: Data): number {
    if (!this.#socket.isOpen) return 0;
    const bytes = bytesOf(message);
    return this.#socket.send(bytes) ? bytes.length : -1;
  }

  sendText(message: string): number {
    return this.send(message);
  }

  sendBinary(message: Data): number {
    return this.send(message);
  }

  getBufferedAmount(): number {
    return this.#socket.bufferedAmount;
  }

  close(code?: number, reason?: string): void {
    this.#socket.close(code, reason);
  }

  terminate(): void {
    this.#socket.close(1001);
  }

  subscribe(topic: string): boolean {
    this.#topics.add(topic);
    this.#socket.join(topic);
    return true;
  }

  unsubscribe(topic: string): boolean {
    this.#socket.leave(topic);
    return this.#topics.delete(topic);
  }

  isSubscribed(topic: string): boolean {
    return this.#topics.has(topic);
  }

  publish(topic: string, message: Data): number {
    const bytes = bytesOf(message);
    this.#socket.broadcast(topic, bytes);
    return bytes.length;
  }

  publishText(topic: string, message: string): number {
    return this.publish(topic, message);
  }

  publishBinary(topic: string, message: Data): number {
    return this.publish(topic, message);
  }

  cork<Result>(run: (socket: this) => Result): Result {
    return run(this);
  }

  /** The server sends pings and answers them. */
  ping(): number {
    return 0;
  }

  pong(): number {
    return 0;
  }
}

/** The answer by which `server.upgrade` accepts a WebSocket. */
export function bunUpgrade(handlers: BunWebSocketHandlers, { data, headers }: BunUpgradeOptions): WebSocketUpgrade {
  const sockets = new WeakMap<ServerWebSocket, BunWebSocket>();
  const known = (socket: ServerWebSocket) => sockets.get(socket)!;
  return websocket(
    {
      open(socket) {
        const own = new BunWebSocket(socket);
        sockets.set(socket, own);
        return handlers.open?.(own);
      },
      message: (socket, message) => handlers.message?.(known(socket), message),
      drain: (socket) => handlers.drain?.(known(socket)),
      close: (socket, code, reason) => handlers.close?.(known(socket), code, reason),
    },
    { data, headers },
  );
}

/** `server.publish`: to all subscribers of a topic. */
export function bunPublish(topic: string, message: Data): number {
  const bytes = bytesOf(message);
  broadcast(topic, bytes);
  return bytes.length;
}

function bytesOf(message: Data): string | Uint8Array {
  if (typeof message === 'string') return message;
  return ArrayBuffer.isView(message) ? new Uint8Array(message.buffer, message.byteOffset, message.byteLength) : new Uint8Array(message);
}
