/** Replaces `node:buffer` in scripts: the parts of `Buffer` that the SDK uses. */
import { host } from './host.js';

export class Buffer extends Uint8Array<ArrayBuffer> {
  static alloc(length: number): Buffer {
    return new Buffer(new ArrayBuffer(length));
  }

  static allocUnsafe(length: number): Buffer {
    return new Buffer(new ArrayBuffer(length));
  }

  static allocUnsafeSlow(length: number): Buffer {
    return new Buffer(new ArrayBuffer(length));
  }

  static byteLength(text: string): number {
    return host.utf8(text).byteLength;
  }

  static override from(content: unknown, offset?: unknown, length?: unknown): Buffer {
    if (typeof content === 'string') return new Buffer(host.utf8(content));
    return new Buffer(content as ArrayBuffer, offset as number | undefined, length as number | undefined);
  }

  latin1Slice(from: number, to: number): string {
    return host.latin1Slice(this, from, to);
  }

  utf8Slice(from: number, to: number): string {
    return host.utf8Slice(this, from, to);
  }

  utf8Write(text: string, at: number, length: number): number {
    return host.utf8Write(this, text, at, length);
  }

  latin1Write(text: string, at: number, length: number): number {
    return host.latin1Write(this, text, at, length);
  }

  copy(target: Uint8Array, at: number, from: number, to: number): number {
    const part = this.subarray(from, to);
    target.set(part, at);
    return part.length;
  }

  equals(other: Uint8Array): boolean {
    return this.length === other.length && this.every((byte, index) => byte === other[index]);
  }

  override indexOf(wanted: number | Uint8Array, from = 0): number {
    if (typeof wanted === 'number') return super.indexOf(wanted, from);
    const first = wanted[0]!;
    const last = this.length - wanted.length;
    for (let at = super.indexOf(first, from); at >= 0 && at <= last; at = super.indexOf(first, at + 1)) {
      let index = 1;
      while (index < wanted.length && this[at + index] === wanted[index]) index++;
      if (index === wanted.length) return at;
    }
    return -1;
  }
}
