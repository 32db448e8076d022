/** Bodies of requests and responses (Fetch, section 5.3). */
import { readForm } from '../../form.js';
import { host } from '../host.js';
import { Blob, File, joined } from './blob.js';
import { bytesOf } from './encoding.js';
import { FormData } from './formdata.js';
import { Headers } from './headers.js';
import { ReadableStream, isDisturbed } from './streams.js';
import { URLSearchParams } from './url.js';

export type BodyInit = string | ArrayBuffer | ArrayBufferView | Blob | FormData | URLSearchParams | ReadableStream;

export class Body {
  readonly headers: Headers;
  /** The whole body, until a stream is requested. */
  #bytes: Uint8Array | null = null;
  #stream: ReadableStream | null = null;
  #isUsed = false;

  constructor(headers: Headers, init: unknown) {
    this.headers = headers;
    if (init === null || init === undefined) return;
    let type: string | null = null;
    if (init instanceof ReadableStream) {
      if (init.locked || isDisturbed(init)) throw new TypeError('the stream of a body is read or locked already');
      this.#stream = init;
    } else if (init instanceof URLSearchParams) {
      this.#bytes = new Uint8Array(host.utf8(init.toString()));
      type = 'application/x-www-form-urlencoded;charset=UTF-8';
    } else if (init instanceof Blob) {
      this.#stream = init.stream();
      if (init.type !== '') type = init.type;
    } else if (init instanceof ArrayBuffer || ArrayBuffer.isView(init)) {
      this.#bytes = bytesOf(init).slice();
    } else if (init instanceof FormData) {
      const boundary = `----forebay-${boundaryOf()}`;
      this.#stream = multipart(init, boundary);
      type = `multipart/form-data; boundary=${boundary}`;
    } else if (typeof init === 'object' && Symbol.asyncIterator in init) {
      this.#stream = ReadableStream.from(init as AsyncIterable<unknown>);
    } else {
      this.#bytes = new Uint8Array(host.utf8(String(init)));
      type = 'text/plain;charset=UTF-8';
    }
    if (type !== null && !headers.has('content-type')) headers.set('content-type', type);
  }

  get body(): ReadableStream | null {
    if (this.#stream === null && this.#bytes !== null) {
      const bytes = this.#bytes;
      this.#bytes = null;
      this.#stream = ReadableStream.from(bytes.length === 0 ? [] : [bytes]);
      // Bytes that were already read cannot be read again as a stream.
      if (this.#isUsed) void this.#stream.cancel();
    }
    return this.#stream;
  }

  get bodyUsed(): boolean {
    return this.#isUsed || (this.#stream !== null && isDisturbed(this.#stream));
  }

  /** The whole body; undefined if it is a stream or was read. @internal */
  protected get whole(): Uint8Array | null | undefined {
    return this.#stream !== null || this.#isUsed ? undefined : this.#bytes;
  }

  async bytes(): Promise<Uint8Array> {
    if (this.bodyUsed) throw new TypeError('Body is unusable: Body has already been read');
    if (this.#stream?.locked === true) throw new TypeError('Body is unusable: its stream is locked');
    if (this.#bytes !== null) {
      this.#isUsed = true;
      return this.#bytes;
    }
    if (this.#stream === null) return new Uint8Array(0);
    const parts: Uint8Array[] = [];
    for await (const chunk of this.#stream) {
      if (!(chunk instanceof Uint8Array)) throw new TypeError('the stream of a body gives Uint8Arrays');
      parts.push(chunk);
    }
    return parts.length === 1 ? parts[0]! : joined(parts);
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    const bytes = await this.bytes();
    const isAll = bytes.byteOffset === 0 && bytes.byteLength === bytes.buffer.byteLength;
    return (isAll ? bytes.buffer : bytes.slice().buffer) as ArrayBuffer;
  }

  async text(): Promise<string> {
    const bytes = await this.bytes();
    const hasMark = bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf;
    return host.utf8Slice(bytes, hasMark ? 3 : 0, bytes.length);
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }

  async blob(): Promise<Blob> {
    return new Blob([await this.bytes()], { type: this.headers.get('content-type') ?? '' });
  }

  async formData(): Promise<FormData> {
    const type = this.headers.get('content-type') ?? '';
    let read;
    try {
      read = readForm(type, await this.bytes());
    } catch (error) {
      throw new TypeError(`the body is no form: ${(error as Error).message}`, { cause: error });
    }
    const form = new FormData();
    for (const [name, value] of read.fields) form.append(name, value);
    for (const file of read.files) form.append(file.field, new File([file.bytes], file.name, { type: file.type }));
    return form;
  }

  /** Splits off another body with the same bytes; both can be read. */
  protected split(): BodyInit | null {
    if (this.bodyUsed || this.#stream?.locked === true) throw new TypeError('Body is unusable: Body has already been read');
    if (this.#bytes !== null) return this.#bytes;
    if (this.#stream === null) return null;
    const [own, other] = this.#stream.tee();
    this.#stream = own;
    return other;
  }
}

function boundaryOf(): string {
  return [...new Uint8Array(host.random(12))].map((byte) => (byte + 0x100).toString(16).slice(1)).join('');
}

function multipart(form: FormData, boundary: string): ReadableStream {
  const escape = (name: string) => name.replace(/\r?\n|\r/g, '%0D%0A').replaceAll('"', '%22');
  async function* parts(): AsyncGenerator<Uint8Array> {
    for (const [name, value] of form) {
      const isFile = value instanceof File;
      const file = isFile ? `; filename="${escape(value.name)}"\r\ncontent-type: ${value.type || 'application/octet-stream'}` : '';
      yield utf8(`--${boundary}\r\ncontent-disposition: form-data; name="${escape(name)}"${file}\r\n\r\n`);
      yield isFile ? await value.bytes() : utf8(value.replace(/\r?\n|\r/g, '\r\n'));
      yield utf8('\r\n');
    }
    yield utf8(`--${boundary}--\r\n`);
  }
  return ReadableStream.from(parts());
}

function utf8(text: string): Uint8Array {
  return new Uint8Array(host.utf8(text));
}
