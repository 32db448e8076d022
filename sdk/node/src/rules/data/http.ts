/** HTTP requests to other servers, with the names of Rengine. */
import * as web from '../../script/web/fetch.js';
import { Files } from '../tools/files.js';
import { filledText, isNothing, wholeNumber } from '../tools/arguments.js';

/** Not the global, which rules must await. */
const fetch = web.fetch as unknown as typeof globalThis.fetch;

/** Limits of a client. `fetch_time_max` and `fetch_bytes_max` of `[workflow]` apply as well. */
const CONNECT = { fallback: 6000, min: 100, max: 5 * 60_000 };
const READ = { fallback: 60_000, min: 100, max: 15 * 60_000 };
const BYTES = { fallback: 2 * 1024 * 1024, min: 1, max: 10 * 1024 * 1024 };

interface Bounds {
  readonly fallback: number;
  readonly min: number;
  readonly max: number;
}

type Headers = Readonly<Record<string, unknown>>;

/** The result of `exchange`. */
export class HttpAnswer {
  readonly #status: number;
  readonly #headers: Record<string, string>;
  readonly #body: string;

  constructor(status: number, headers: Record<string, string>, body: string) {
    this.#status = status;
    this.#headers = headers;
    this.#body = body;
  }

  getStatusCodeValue(): number {
    return this.#status;
  }

  getStatusCode(): number {
    return this.#status;
  }

  /** The headers; names in lower case. */
  getHeaders(): Record<string, string> {
    return this.#headers;
  }

  getBody(): string {
    return this.#body;
  }

  toJSON(): Record<string, unknown> {
    return { status: this.#status, headers: this.#headers, body: this.#body };
  }
}

/**
 * An HTTP client: `fetch` with its own limits of time and size. Every method returns a promise. A status of 400 or above is an error,
 * except for `exchange`.
 */
export class HttpClient {
  readonly #timeMs: number;
  readonly #bytesMax: number;

  /** Timeouts in milliseconds, which are added up here, and the maximum size of a response in bytes. */
  constructor(connectTimeout: number = CONNECT.fallback, readTimeout: number = READ.fallback, maxResponseSize: number = BYTES.fallback) {
    const bound = (value: number, name: string, { min, max }: Bounds) => wholeNumber(value, name, min, max);
    this.#timeMs = bound(connectTimeout, 'connectTimeout', CONNECT) + bound(readTimeout, 'readTimeout', READ);
    this.#bytesMax = bound(maxResponseSize, 'maxResponseSize', BYTES);
  }

  async getForText(url: string): Promise<string> {
    return textOf(await this.#send(url, 'GET'));
  }

  async postForText(url: string, request: unknown): Promise<string> {
    return textOf(await this.#send(url, 'POST', request));
  }

  async getForJson(url: string): Promise<unknown> {
    return jsonOf(url, await this.getForText(url));
  }

  /** `postForJson(url, request)`, or `postForJson(url, headers, request)`. */
  async postForJson(url: string, ...values: [unknown] | [Headers, unknown]): Promise<unknown> {
    const [headers, request] = values.length > 1 ? (values as [Headers, unknown]) : [null, values[0]];
    return jsonOf(url, textOf(await this.#send(url, 'POST', request, headers)));
  }

  /** Sends any request; returns the response whatever its status. */
  async exchange(url: string, method: string, request: unknown = null, headers: Headers | null = null): Promise<HttpAnswer> {
    const { status, headers: own, bytes } = await this.#send(url, filledText(method, 'method').toUpperCase(), request, headers, false);
    return new HttpAnswer(status, own, decodeUtf8(bytes));
  }

  /** Downloads a response to a file, as `Files` would write it; returns the file's path. */
  async download(url: string, downloadFile: string): Promise<string> {
    filledText(downloadFile, 'downloadFile');
    const { bytes } = await this.#send(url, 'GET');
    Files.writeFromByteArray(downloadFile, bytes);
    return downloadFile;
  }

  /** Uploads a file, read as by `Files`, as the form part `filename`; returns the response's text. */
  async upload(url: string, filename: string, uploadFile: string): Promise<string> {
    filledText(filename, 'filename');
    const form = new FormData();
    const bytes = Files.readToByteArray(filledText(uploadFile, 'uploadFile'));
    form.append(filename, new Blob([bytes as Uint8Array<ArrayBuffer>]), uploadFile.slice(uploadFile.lastIndexOf('/') + 1));
    return textOf(await this.#send(url, 'POST', form));
  }

  async #send(url: string, method: string, body: unknown = null, headers: Headers | null = null, failsOnStatus = true): Promise<ReceivedResponse> {
    filledText(url, 'url');
    return send({ url, what: url, method, body, headers, timeMs: this.#timeMs, bytesMax: this.#bytesMax, failsOnStatus });
  }
}

/** A request with its own limits. */
export interface OutgoingRequest {
  readonly url: string;
  /** The request's description in error messages. */
  readonly what: string;
  readonly method: string;
  readonly body: unknown;
  readonly headers: Headers | null;
  readonly timeMs: number;
  readonly bytesMax: number;
  /** Whether a status of 400 or above is an error. */
  readonly failsOnStatus: boolean;
}

/** Sends a request and reads the whole response. */
export async function send({ url, what, method, body, headers, timeMs, bytesMax, failsOnStatus }: OutgoingRequest): Promise<ReceivedResponse> {
  const fields = new globalThis.Headers();
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (!isNothing(value)) for (const each of Array.isArray(value) ? (value as unknown[]) : [value]) fields.append(name, String(each));
  }
  const aborted = new AbortController();
  const timer = setTimeout(() => aborted.abort(new DOMException(`${what} has not answered in full after ${timeMs} ms`, 'TimeoutError')), timeMs);
  try {
    const response = await fetch(url, { method, headers: fields, body: bodyOf(body, fields), signal: aborted.signal } as RequestInit);
    const bytes = await readAll(what, response, bytesMax);
    if (failsOnStatus && response.status >= 400) {
      throw new Error(`${what} has answered ${response.status}: ${decodeUtf8(bytes.subarray(0, 500))}`);
    }
    return { status: response.status, headers: Object.fromEntries(response.headers), bytes };
  } finally {
    clearTimeout(timer);
  }
}

async function readAll(what: string, response: Response, bytesMax: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let length = 0;
  for await (const piece of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    length += piece.length;
    if (length > bytesMax) throw new RangeError(`the answer of ${what} is longer than ${bytesMax} bytes (maxResponseSize)`);
    pieces.push(piece);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

export interface ReceivedResponse {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly bytes: Uint8Array;
}

/** Strings, bytes and forms are sent unchanged, anything else as JSON. */
function bodyOf(request: unknown, headers: globalThis.Headers): unknown {
  if (isNothing(request)) return undefined;
  if (typeof request === 'string' || request instanceof Uint8Array || request instanceof FormData || request instanceof Blob || request instanceof URLSearchParams) return request;
  const json = JSON.stringify(request) as string | undefined;
  if (json === undefined) throw new TypeError('`request` is a text, bytes, a form, or what JSON can say');
  if (!headers.has('content-type')) headers.set('content-type', 'application/json');
  return json;
}

function textOf({ bytes }: ReceivedResponse): string {
  return decodeUtf8(bytes);
}

export function decodeUtf8(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

function jsonOf(url: string, answer: string): unknown {
  try {
    return JSON.parse(answer) as unknown;
  } catch (error) {
    throw new SyntaxError(`what ${url} has answered is not JSON: ${(error as Error).message}`);
  }
}
