/**
 * The socket of the event `upgrade`: what the application writes to it is first the head of a response, as text, and behind status 101 the bytes of
 * the new protocol.
 */
import { Duplex } from 'node:stream';
import { Reply } from '../reply.js';
import type { BodySource, WireRequest } from '../request.js';
import { TunnelUpgrade } from '../upgrade.js';
import { KIND_NONE, type Bytes } from '../wire.js';
import { isEncrypted, portOf } from './connection.js';

/** Longest head of a response. */
const HEAD_BYTES_MAX = 65_536;
const HEAD_END = Buffer.from('\r\n\r\n');
const STATUS_LINE = /^HTTP\/1\.[01] (\d{3})(?: |$)/;

type Done = (error?: Error | null) => void;

/** The result for the worker: the connection, or a response that refuses it. */
type Outcome = TunnelUpgrade | Reply;

export class UpgradeSocket extends Duplex {
  readonly remoteAddress: string | undefined;
  readonly remoteFamily: string | undefined;
  readonly remotePort: number | undefined;
  readonly encrypted: boolean;
  readonly outcome: Promise<Outcome>;
  #settle!: { resolve(outcome: Outcome): void; reject(error: unknown): void };
  /** The beginning of the head; null once that is complete. */
  #head: Bytes | null = Buffer.alloc(0) as Bytes;
  readonly #chunks: Uint8Array[] = [];
  /** Called when the chunks have been taken. */
  #written: Done | null = null;
  #wake: (() => void) | null = null;
  #hasEnded = false;
  #received: BodySource | null = null;
  #isReading = false;

  /** `connection` is what `Source` says about the client's. */
  constructor(request: WireRequest, connection: number) {
    super({ allowHalfOpen: false });
    this.remoteAddress = request.ip || undefined;
    this.remoteFamily = request.ip === '' ? undefined : request.ip.includes(':') ? 'IPv6' : 'IPv4';
    this.remotePort = portOf(connection);
    this.encrypted = isEncrypted(connection);
    this.outcome = new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
  }

  /** Neither has an effect: the connection belongs to the server. */
  setTimeout(): this {
    return this;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  override _write(chunk: Uint8Array, _: string, done: Done): void {
    if (this.#head !== null) {
      try {
        this.#readHead(chunk);
      } catch (error) {
        done(error as Error);
        return;
      }
      done();
      return;
    }
    this.#chunks.push(chunk);
    this.#written = done;
    this.#wake?.();
  }

  override _final(done: Done): void {
    this.#hasEnded = true;
    this.#wake?.();
    if (this.#head !== null) this.#settle.reject(new Error('the application has closed the connection of an upgrade without a response'));
    done();
  }

  override _read(): void {
    if (this.#received === null || this.#isReading) return;
    this.#isReading = true;
    this.#received.read().then(
      (piece) => {
        this.#isReading = false;
        this.push(piece);
      },
      // The client has gone.
      () => this.destroy(),
    );
  }

  override _destroy(error: Error | null, done: Done): void {
    this.#hasEnded = true;
    this.#wake?.();
    this.#settle.reject(error ?? new Error('the application has destroyed the connection of an upgrade'));
    done(error);
  }

  #readHead(chunk: Uint8Array): void {
    const bytes = Buffer.concat([this.#head!, chunk]) as Bytes;
    const end = bytes.indexOf(HEAD_END);
    if (end < 0) {
      if (bytes.length > HEAD_BYTES_MAX) throw new RangeError(`the head of the response to an upgrade has more than ${HEAD_BYTES_MAX} bytes`);
      this.#head = bytes;
      return;
    }
    this.#head = null;
    const [first, ...lines] = bytes.latin1Slice(0, end).split('\r\n');
    const status = Number(STATUS_LINE.exec(first!)?.[1]);
    if (Number.isNaN(status)) throw new TypeError(`the response to an upgrade begins with ${JSON.stringify(first)}, not with a status line of HTTP/1.1`);
    const headers: string[] = [];
    for (const line of lines) {
      const colon = line.indexOf(':');
      headers.push(line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim());
    }
    const rest = bytes.subarray(end + HEAD_END.length);
    if (rest.length > 0) this.#chunks.push(rest);
    if (status !== 101) {
      this.#settle.resolve(new Reply(status, KIND_NONE, headers, this.#pieces()));
      return;
    }
    const start = (received: BodySource) => {
      this.#received = received;
      this._read();
    };
    this.#settle.resolve(new TunnelUpgrade(headers, this.#pieces(), start));
  }

  async *#pieces(): AsyncGenerator<Uint8Array> {
    try {
      for (;;) {
        const chunks = this.#chunks.splice(0);
        const done = this.#written;
        this.#written = null;
        done?.();
        yield* chunks;
        if (this.#chunks.length > 0) continue;
        if (this.#hasEnded) return;
        await new Promise<void>((resolve) => (this.#wake = resolve));
        this.#wake = null;
      }
    } finally {
      this.destroy();
    }
  }
}
