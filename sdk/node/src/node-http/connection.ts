/** The socket of a request as its application sees it. The real connection belongs to the server: this one can be asked, watched and destroyed. */
import { EventEmitter } from 'node:events';
import type { Exchange } from './exchange.js';

const CORKED = { corked: 0 };

/** The port in what `Source` says about a connection. */
export function portOf(connection: number): number | undefined {
  return (connection & 0xffff) || undefined;
}

export function isEncrypted(connection: number): boolean {
  return connection > 0xffff;
}

export class Connection extends EventEmitter {
  destroyed = false;
  /** The response that is being written, as in Node. */
  _httpMessage: unknown = null;
  readonly #exchange: Exchange;
  #timer: NodeJS.Timeout | undefined;

  constructor(exchange: Exchange) {
    super();
    this.#exchange = exchange;
  }

  /** The client's address; undefined if it came over a Unix socket. */
  get remoteAddress(): string | undefined {
    return this.#exchange.peer;
  }

  get remoteFamily(): string | undefined {
    const { remoteAddress } = this;
    return remoteAddress === undefined ? undefined : remoteAddress.includes(':') ? 'IPv6' : 'IPv4';
  }

  /** The client's port; undefined if it is not known, as behind a proxy. */
  get remotePort(): number | undefined {
    return portOf(this.#exchange.connection);
  }

  /** Whether the client speaks TLS, with the server or with a proxy that it trusts. */
  get encrypted(): boolean {
    return isEncrypted(this.#exchange.connection);
  }

  get readable(): boolean {
    return !this.destroyed;
  }

  get writable(): boolean {
    return !this.destroyed;
  }

  get readyState(): string {
    return this.destroyed ? 'closed' : 'open';
  }

  /** Destroys the response, too, unless it has been written. */
  destroy(error?: Error | null): this {
    this.#exchange.destroy(error ?? null);
    return this;
  }

  /** Emits `timeout` on request, response or connection after so long without a write; destroys the connection if none of them listens. */
  setTimeout(milliseconds: number, callback?: () => void): this {
    clearTimeout(this.#timer);
    if (callback !== undefined) this.once('timeout', callback);
    this.#timer = milliseconds > 0 && !this.destroyed ? setTimeout(() => this.#exchange.timeout(), milliseconds) : undefined;
    this.#timer?.unref();
    return this;
  }

  /** A write has happened, so the timeout starts again. @internal */
  active(): void {
    this.#timer?.refresh();
  }

  /** The request is over. @internal */
  close(hadError: boolean): void {
    clearTimeout(this.#timer);
    this.destroyed = true;
    if ((this as unknown as { _eventsCount: number })._eventsCount !== 0) this.emit('close', hadError);
  }

  address(): object {
    return {};
  }

  write(): boolean {
    throw new Error('the connection belongs to the server: write to the response instead of its socket');
  }

  end(): this {
    return this.destroy();
  }
}

/** Members that are the same for all connections, and methods of sockets without effect here. */
export interface Connection {
  readonly readableHighWaterMark: number;
  cork(): void;
  uncork(): void;
}
const same = function (this: Connection): Connection {
  return this;
};
Object.assign(Connection.prototype, {
  connecting: false,
  pending: false,
  bytesRead: 0,
  bytesWritten: 0,
  timeout: 0,
  readableHighWaterMark: 65_536,
  writableHighWaterMark: 65_536,
  writableLength: 0,
  // `OutgoingMessage` uncorks its socket on the next tick unless it finds it corked.
  writableCorked: 1,
  _writableState: CORKED,
  cork: same,
  uncork: same,
  pause: same,
  resume: same,
  ref: same,
  unref: same,
  setNoDelay: same,
  setKeepAlive: same,
});
