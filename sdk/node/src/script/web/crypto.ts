/** Random values and digests (Web Cryptography). Other operations of `subtle` are not supported. */
import { host } from '../host.js';
import { bytesOf } from './encoding.js';

const RANDOM_BYTES_MAX = 65_536;

type IntegerArray = Int8Array | Uint8Array | Uint8ClampedArray | Int16Array | Uint16Array | Int32Array | Uint32Array;

class SubtleCrypto {
  async digest(algorithm: string | { name: string }, data: ArrayBuffer | ArrayBufferView): Promise<ArrayBuffer> {
    const name = (typeof algorithm === 'string' ? algorithm : String(algorithm.name)).toUpperCase();
    const digest = host.digest(name, bytesOf(data));
    if (digest === undefined) throw new DOMException('Unrecognized algorithm name', 'NotSupportedError');
    return digest;
  }
}

class Crypto {
  readonly subtle = new SubtleCrypto();

  getRandomValues<T extends IntegerArray>(array: T): T {
    if (!ArrayBuffer.isView(array) || array instanceof DataView || /^Float/.test(array[Symbol.toStringTag])) {
      throw new DOMException('random values are written into an array of integers', 'TypeMismatchError');
    }
    if (array.byteLength > RANDOM_BYTES_MAX) {
      throw new DOMException(`at most ${RANDOM_BYTES_MAX} random bytes at a time, not ${array.byteLength}`, 'QuotaExceededError');
    }
    bytesOf(array).set(new Uint8Array(host.random(array.byteLength)));
    return array;
  }

  /** A random UUID, version 4 (RFC 9562). */
  randomUUID(): string {
    const bytes = new Uint8Array(host.random(16));
    bytes[6] = (bytes[6]! & 0x0f) | 0x40;
    bytes[8] = (bytes[8]! & 0x3f) | 0x80;
    let hex = '';
    for (const byte of bytes) hex += (byte + 0x100).toString(16).slice(1);
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
  }
}

export const crypto = new Crypto();
