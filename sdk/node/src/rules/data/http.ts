/** Requests to other servers under the names of Rengine. */
import { Files } from '../tools/files.js';
import { filledText, isNothing, wholeNumber } from '../tools/arguments.js';

/** The bounds of one client. What `[workflow]` says (`fetch_time_max`, `fetch_bytes_max`) holds besides. */
const CONNECT = { usual: 6000, least: 100, most: 5 * 60_000 };
const READ = { usual: 60_000, least: 100, most: 15 * 60_000 };
const BYTES = { usual: 2 * 1024 * 1024, least: 1, most: 10 * 1024 * 1024 };

interface Bounds {
  readonly usual: number;
  readonly least: number;
  readonly most: number;
}

type Headers = Readonly<Record<string, unknown>>;

/** What `exchange` gives. */
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

  /** By their names in lower case. */
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

/** An HTTP client: `fetch`, with a time and a size of its own. Every method gives a promise. A status from 400 on is an error, but for `exchange`. */
export class HttpClient {
  readonly #timeMs: number;
  readonly #bytesMax: number;

  /** Milliseconds to connect and to read, which count together here, and bytes of an answer. */
  constructor(connectTimeout: number = CONNECT.usual, readTimeout: number = READ.usual, maxResponseSize: number = BYTES.usual) {
    const bound = (value: number, name: string, { least, most }: Bounds) => wholeNumber(value, name, least, most);
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

  /** Any request; gives the answer whatever its status is. */
  async exchange(url: string, method: string, request: unknown = null, headers: Headers | null = null): Promise<HttpAnswer> {
    const { status, headers: own, bytes } = await this.#send(url, filledText(method, 'method').toUpperCase(), request, headers, false);
    return new HttpAnswer(status, own, decoded(bytes));
  }

  /** Writes an answer into a file, as `Files` does; gives its path. */
  async download(url: string, downloadFile: string): Promise<string> {
    filledText(downloadFile, 'downloadFile');
    const { bytes } = await this.#send(url, 'GET');
    Files.writeFromByteArray(downloadFile, bytes);
    return downloadFile;
  }

  /** Sends a file, which `Files` reads, as the part of this name of a form; gives what is answered. */
  async upload(url: string, filename: string, uploadFile: string): Promise<string> {
    filledText(filename, 'filename');
    const form = new FormData();
    const bytes = Files.readToByteArray(filledText(uploadFile, 'uploadFile'));
    form.append(filename, new Blob([bytes as Uint8Array<ArrayBuffer>]), uploadFile.slice(uploadFile.lastIndexOf('/') + 1));
    return textOf(await this.#send(url, 'POST', form));
  }

  async #send(url: string, method: string, body: unknown = null, headers: Headers | null = null, isRefusedByStatus = true): Promise<Answered> {
    filledText(url, 'url');
    return send({ url, what: url, method, body, headers, timeMs: this.#timeMs, bytesMax: this.#bytesMax, isRefusedByStatus });
  }
}

/** A request with its own bounds. */
export interface Sent {
  readonly url: string;
  /** As errors name it. */
  readonly what: string;
  readonly method: string;
  readonly body: unknown;
  readonly headers: Headers | null;
  readonly timeMs: number;
  readonly bytesMax: number;
  /** Whether a status from 400 on is an error. */
  readonly isRefusedByStatus: boolean;
}

/** Sends a request, and reads all of the answer. */
export async function send({ url, what, method, body, headers, timeMs, bytesMax, isRefusedByStatus }: Sent): Promise<Answered> {
  const fields = new globalThis.Headers();
  for (const [name, value] of Object.entries(headers ?? {})) {
    if (!isNothing(value)) for (const each of Array.isArray(value) ? (value as unknown[]) : [value]) fields.append(name, String(each));
  }
  const aborted = new AbortController();
  const timer = setTimeout(() => aborted.abort(new DOMException(`${what} has not answered in full after ${timeMs} ms`, 'TimeoutError')), timeMs);
  try {
    const response = await fetch(url, { method, headers: fields, body: bodyOf(body, fields), signal: aborted.signal } as RequestInit);
    const bytes = await readAll(what, response, bytesMax);
    if (isRefusedByStatus && response.status >= 400) {
      throw new Error(`${what} has answered ${response.status}: ${decoded(bytes.subarray(0, 500))}`);
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

export interface Answered {
  readonly status: number;
  readonly headers: Record<string, string>;
  readonly bytes: Uint8Array;
}

/** Text, bytes and forms go as they are, anything else as JSON. */
function bodyOf(request: unknown, headers: globalThis.Headers): unknown {
  if (isNothing(request)) return undefined;
  if (typeof request === 'string' || request instanceof Uint8Array || request instanceof FormData || request instanceof Blob || request instanceof URLSearchParams) return request;
  const json = JSON.stringify(request) as string | undefined;
  if (json === undefined) throw new TypeError('`request` is a text, bytes, a form, or what JSON can say');
  if (!headers.has('content-type')) headers.set('content-type', 'application/json');
  return json;
}

function textOf({ bytes }: Answered): string {
  return decoded(bytes);
}

export function decoded(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

function jsonOf(url: string, answer: string): unknown {
  try {
    return JSON.parse(answer) as unknown;
  } catch (error) {
    throw new SyntaxError(`what ${url} has answered is not JSON: ${(error as Error).message}`);
  }
}
