import { crypto } from '../../script/web/crypto.js';

export class UUID {
  /** A new random UUID (version 4, RFC 9562). */
  static randomUUID(): string {
    return crypto.randomUUID();
  }
}
