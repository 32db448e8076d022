/** Connections whose new protocol the worker speaks itself (protocol/PROTOCOL.md, section 10). */
import type { BodySource } from './request.js';

/** The answer that takes the client's connection over with status 101. */
export class TunnelUpgrade {
  /** `[name, value, ...]` of the response, names in lower case; one of them is `upgrade`. */
  readonly headers: readonly string[];
  /** The bytes for the client. The connection is closed behind them. */
  readonly pieces: AsyncIterable<Uint8Array>;
  /** Called with the bytes of the client, once the connection is open. */
  readonly start: (received: BodySource) => void;

  constructor(headers: readonly string[], pieces: AsyncIterable<Uint8Array>, start: (received: BodySource) => void) {
    this.headers = headers;
    this.pieces = pieces;
    this.start = start;
  }
}
