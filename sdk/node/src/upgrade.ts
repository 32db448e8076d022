/** Answers that take the client's connection over with status 101 (protocol/PROTOCOL.md, section 10). */
import type { BodySource } from './request.js';

/** The part that both kinds share. Only workers that speak frames can send one. */
export abstract class Upgrade {
  /** `[name, value, ...]` of the response, names in lower case. @internal */
  readonly headers: readonly string[];

  /** @internal */
  constructor(headers: readonly string[]) {
    this.headers = headers;
  }
}

/** The worker speaks the new protocol itself. One of the headers is `upgrade`. */
export class TunnelUpgrade extends Upgrade {
  /** The bytes for the client. The connection is closed behind them. */
  readonly pieces: AsyncIterable<Uint8Array>;
  /** Called with the bytes of the client, once the connection is open. */
  readonly start: (received: BodySource) => void;

  constructor(headers: readonly string[], pieces: AsyncIterable<Uint8Array>, start: (received: BodySource) => void) {
    super(headers);
    this.pieces = pieces;
    this.start = start;
  }
}
