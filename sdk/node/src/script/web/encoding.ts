/** Text encoding and decoding (Encoding). Decoders support UTF-8, UTF-16LE and windows-1252 under all labels in use. */
import { host } from '../host.js';

export class TextEncoder {
  get encoding(): string {
    return 'utf-8';
  }

  encode(text: unknown = ''): Uint8Array {
    return new Uint8Array(host.utf8(String(text)));
  }

  encodeInto(text: string, bytes: Uint8Array): { read: number; written: number } {
    const written = host.utf8Write(bytes, text, 0, bytes.length);
    let read = 0;
    let left = written;
    for (const character of text) {
      const code = character.codePointAt(0)!;
      left -= code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
      if (left < 0) break;
      read += character.length;
    }
    return { read, written };
  }
}

const LABELS: Readonly<Record<string, string>> = {
  'utf-8': 'utf-8',
  utf8: 'utf-8',
  'unicode-1-1-utf-8': 'utf-8',
  'utf-16le': 'utf-16le',
  'utf-16': 'utf-16le',
  'ucs-2': 'utf-16le',
  unicode: 'utf-16le',
  'windows-1252': 'windows-1252',
  cp1252: 'windows-1252',
  'x-cp1252': 'windows-1252',
  ascii: 'windows-1252',
  'us-ascii': 'windows-1252',
  latin1: 'windows-1252',
  l1: 'windows-1252',
  'iso-8859-1': 'windows-1252',
  'iso8859-1': 'windows-1252',
};

/** The characters for bytes 0x80 to 0x9F in windows-1252. */
const UPPER =
  '\u20AC\x81\u201A\u0192\u201E\u2026\u2020\u2021\u02C6\u2030\u0160\u2039\u0152\x8D\u017D\x8F' +
  '\x90\u2018\u2019\u201C\u201D\u2022\u2013\u2014\u02DC\u2122\u0161\u203A\u0153\x9D\u017E\u0178';
const UPPER_BYTES = /[\x80-\x9f]/g;

const EMPTY = new Uint8Array(0);

export class TextDecoder {
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  /** The bytes of an incomplete character. */
  #rest: Uint8Array = EMPTY;
  #isBegun = false;

  constructor(label: unknown = 'utf-8', options: { fatal?: boolean; ignoreBOM?: boolean } = {}) {
    const name = String(label).trim().toLowerCase();
    const encoding = Object.hasOwn(LABELS, name) ? LABELS[name] : undefined;
    if (encoding === undefined) throw new RangeError(`the encoding ${JSON.stringify(label)} is not supported`);
    this.encoding = encoding;
    this.fatal = Boolean(options.fatal);
    this.ignoreBOM = Boolean(options.ignoreBOM);
  }

  decode(input: ArrayBuffer | ArrayBufferView | undefined = EMPTY, options: { stream?: boolean } = {}): string {
    let bytes = bytesOf(input);
    if (this.#rest.length > 0) {
      const joined = new Uint8Array(this.#rest.length + bytes.length);
      joined.set(this.#rest);
      joined.set(bytes, this.#rest.length);
      bytes = joined;
      this.#rest = EMPTY;
    }
    const isLast = options.stream !== true;
    if (!isLast) {
      const end = bytes.length - unfinished(this.encoding, bytes);
      this.#rest = bytes.slice(end);
      bytes = bytes.subarray(0, end);
    }
    let text = this.#decodeAll(bytes);
    if (!this.#isBegun && text !== '') {
      if (!this.ignoreBOM && this.encoding !== 'windows-1252' && text.charCodeAt(0) === 0xfeff) text = text.slice(1);
      this.#isBegun = true;
    }
    if (isLast) this.#isBegun = false;
    return text;
  }

  #decodeAll(bytes: Uint8Array): string {
    if (this.encoding === 'utf-8') {
      if (this.fatal && !host.isUtf8(bytes)) throw new TypeError('The encoded data was not valid for encoding utf-8');
      return host.utf8Slice(bytes, 0, bytes.length);
    }
    if (this.encoding === 'windows-1252') {
      return host.latin1Slice(bytes, 0, bytes.length).replace(UPPER_BYTES, (byte) => UPPER[byte.charCodeAt(0) - 0x80]!);
    }
    let text = '';
    for (let at = 0; at + 1 < bytes.length; at += 2) text += String.fromCharCode(bytes[at]! | (bytes[at + 1]! << 8));
    if (bytes.length % 2 === 1) text += '\ufffd';
    if (this.fatal && !text.isWellFormed()) throw new TypeError('The encoded data was not valid for encoding utf-16le');
    return text.toWellFormed();
  }
}

/** The number of bytes at the end that begin a character which more input may complete. */
function unfinished(encoding: string, bytes: Uint8Array): number {
  if (encoding === 'windows-1252') return 0;
  if (encoding === 'utf-16le') {
    const odd = bytes.length % 2;
    const last = bytes[bytes.length - odd - 1] ?? 0;
    return odd + (last >= 0xd8 && last <= 0xdb ? 2 : 0);
  }
  for (let count = 1; count <= Math.min(3, bytes.length); count++) {
    const byte = bytes[bytes.length - count]!;
    if (byte >= 0xf0) return count < 4 ? count : 0;
    if (byte >= 0xe0) return count < 3 ? count : 0;
    if (byte >= 0xc0) return count < 2 ? count : 0;
    if (byte < 0x80) return 0;
  }
  return 0;
}

/** The bytes of a buffer or view. */
export function bytesOf(source: unknown): Uint8Array {
  if (source instanceof Uint8Array) return source;
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (ArrayBuffer.isView(source)) return new Uint8Array(source.buffer, source.byteOffset, source.byteLength);
  throw new TypeError('an ArrayBuffer or a view of one is expected');
}
