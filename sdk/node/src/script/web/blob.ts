/** Blobs and files (File API), held in memory. */
import { host } from '../host.js';
import { bytesOf } from './encoding.js';
import { ReadableStream } from './streams.js';

/** Valid characters of a type; a type with any other character is empty. */
const TYPE = /^[\x20-\x7e]*$/;

type Part = string | ArrayBuffer | ArrayBufferView | Blob;

export class Blob {
  readonly type: string;
  readonly #bytes: Uint8Array;

  constructor(parts: Iterable<Part> = [], options: { type?: string } = {}) {
    const all = [...parts].map((part) =>
      part instanceof Blob
        ? part.#bytes
        : part instanceof ArrayBuffer || ArrayBuffer.isView(part)
          ? bytesOf(part)
          : new Uint8Array(host.utf8(String(part))),
    );
    this.#bytes = joined(all);
    const type = String(options.type ?? '');
    this.type = TYPE.test(type) ? type.toLowerCase() : '';
  }

  get size(): number {
    return this.#bytes.length;
  }

  async text(): Promise<string> {
    return host.utf8Slice(this.#bytes, 0, this.#bytes.length);
  }

  async bytes(): Promise<Uint8Array> {
    return this.#bytes.slice();
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return this.#bytes.slice().buffer;
  }

  slice(from = 0, to = this.size, type = ''): Blob {
    return new Blob([this.#bytes.slice(from, to)], { type });
  }

  stream(): ReadableStream {
    return ReadableStream.from(this.size === 0 ? [] : [this.#bytes.slice()]);
  }

  get [Symbol.toStringTag](): string {
    return 'Blob';
  }
}

export class File extends Blob {
  readonly name: string;
  readonly lastModified: number;

  constructor(parts: Iterable<Part>, name: string, options: { type?: string; lastModified?: number } = {}) {
    super(parts, options);
    this.name = String(name);
    this.lastModified = options.lastModified ?? Date.now();
  }

  override get [Symbol.toStringTag](): string {
    return 'File';
  }
}

/** Concatenates byte arrays. */
export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}
