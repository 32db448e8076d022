/** Assembles a response that arrives in pieces, because it is long or because it is delivered in parts. */
import { decode } from '../message.js';
import { isParts, PartReader, FAILURE, PART, REPLY } from '../parts.js';
import { readPairs, type Bytes } from '../wire.js';
import type { ThrownError } from '../failure.js';

/** Longest reply that is assembled, in bytes. */
const REPLY_BYTES_MAX = 1_073_741_824;

/** How a response ended: with a value, with a thrown error, or incomplete. */
export type Outcome = { readonly value: unknown } | { readonly thrown: ThrownError; readonly status: number } | { readonly broken: string };

export class Incoming {
  readonly status: number;
  readonly kind: number;
  readonly #headers: readonly string[];
  readonly #reader: PartReader | null;
  readonly #onPart: (part: unknown) => unknown;
  #pieces: Bytes[] = [];
  #bytes = 0;
  #outcome: Outcome | null = null;

  constructor(status: number, kind: number, headers: readonly string[], onPart: (part: unknown) => unknown) {
    this.status = status;
    this.kind = kind;
    this.#headers = headers;
    this.#onPart = onPart;
    this.#reader = isParts(headers) ? new PartReader() : null;
  }

  /** Adds a piece; the buffer must not be reused. */
  push(piece: Bytes): void {
    if (piece.length === 0 || this.#outcome !== null) return;
    try {
      if (this.#reader !== null) this.#reader.push(piece, (kind, value) => this.#part(kind, value));
      else this.#keep(piece);
    } catch (error) {
      this.#outcome = { broken: `the answer cannot be read: ${(error as Error).message}` };
    }
  }

  #keep(piece: Bytes): void {
    this.#bytes += piece.length;
    if (this.#bytes > REPLY_BYTES_MAX) throw new RangeError(`it has more than ${REPLY_BYTES_MAX} bytes`);
    this.#pieces.push(piece);
  }

  #part(kind: number, value: unknown): void {
    if (kind === PART) void this.#onPart(value);
    else if (kind === REPLY) this.#outcome = { value };
    else if (kind === FAILURE) this.#outcome = { thrown: value as ThrownError, status: 500 };
  }

  /** Returns the outcome once the response is complete. */
  end(): Outcome {
    if (this.#outcome !== null) return this.#outcome;
    if (this.#reader !== null) return { broken: 'the answer ended before its reply' };
    const bytes = Buffer.concat(this.#pieces) as Bytes;
    return outcomeOf(this.status, this.kind, this.#headers, bytes, 0, bytes.length);
  }
}

/** Decodes the headers of a response into `[name, value, ...]`. */
export function headersOf(bytes: Bytes, at: number, end: number): readonly string[] {
  return readPairs(bytes, at, end, 'latin1');
}

const JSON_KIND = 1;
const TEXT_KIND = 2;
const HTML_KIND = 4;
const FAILED_FROM = 400;

/** The outcome of a complete response. The result may refer to `bytes`, which must not be reused. */
export function outcomeOf(status: number, kind: number, headers: readonly string[], bytes: Bytes, at: number, end: number): Outcome {
  let value: unknown;
  try {
    value = valueOf(kind, headers, bytes, at, end);
  } catch (error) {
    return { broken: `the answer cannot be read: ${(error as Error).message}` };
  }
  if (status < FAILED_FROM) return { value };
  return { thrown: thrownOf(status, value), status };
}

function valueOf(kind: number, headers: readonly string[], bytes: Bytes, at: number, end: number): unknown {
  if (at === end) return undefined;
  if (kind === JSON_KIND) return decode(bytes, at, end);
  if (kind === TEXT_KIND || kind === HTML_KIND) return bytes.utf8Slice(at, end);
  const index = headers.indexOf('content-type');
  const type = kind === 0 && index >= 0 && index % 2 === 0 ? headers[index + 1]! : '';
  if (/^application\/([\w.+-]+\+)?json\b/i.test(type)) return JSON.parse(bytes.utf8Slice(at, end)) as unknown;
  if (/^text\//i.test(type)) return bytes.utf8Slice(at, end);
  return new Uint8Array(bytes.subarray(at, end));
}

/** The error of a failed message handler, or of a request handler that was answered with a problem document (RFC 9457). */
function thrownOf(status: number, value: unknown): ThrownError {
  const given = (typeof value === 'object' && value !== null ? value : {}) as Record<string, unknown>;
  if ('stack' in given && 'members' in given && typeof given['message'] === 'string') return given as unknown as ThrownError;
  const message = given['detail'] ?? given['title'] ?? `the handler answered with status ${status}`;
  return { name: 'HttpError', message: String(message), stack: null, members: given };
}
