import { FIELD_VALUE, TOKEN } from './grammar.js';
import { Html } from './html.js';
import { SqlError } from './sql/error.js';
import { sqlProblem, type SqlProblem } from './sql/problem.js';
import { Upgrade } from './upgrade.js';
import { KIND_BYTES, KIND_HTML, KIND_JSON, KIND_NONE, KIND_TEXT, pairsBytes } from './wire.js';

/** Headers of a reply: an object (an array as value repeats the header), pairs, or the web's `Headers`. */
export type HeadersLike =
  | Readonly<Record<string, string | number | readonly string[]>>
  | Iterable<readonly [name: string, value: string]>;

/** Status and headers of a reply. */
export interface ReplyInit {
  /** 200 to 599; 200 when left out, 204 when there is no body. */
  status?: number | undefined;
  headers?: HeadersLike | undefined;
}

/** A piece of a body; strings are sent as UTF-8. */
export type Piece = string | Uint8Array | ArrayBuffer;

/**
 * A handler may return any of these values, directly or in a promise:
 *
 * | value | answer |
 * |---|---|
 * | plain object, array, number, boolean | 200, JSON |
 * | string | 200, `text/plain; charset=utf-8` |
 * | `Html` of `html` | 200, `text/html; charset=utf-8` |
 * | `Uint8Array`, `ArrayBuffer` | 200, `application/octet-stream` |
 * | nothing, `null` | 204 |
 * | `Reply` of `json()`, `text()`, `reply()` | as it says |
 * | web `Response` | as it says |
 * | web or Node stream, async iterable of strings and bytes | 200, streamed with back-pressure |
 *
 * It is `unknown` because any object is JSON; one that cannot be written (a BigInt in it, a cycle) is answered with 500.
 */
export type Answer = unknown;

/** A body whose length is known, or the pieces of one. */
export type ReplyBody = string | Uint8Array | AsyncIterable<unknown> | null;

/** A finished answer: status, headers and body. Made by {@link json}, {@link text} and {@link reply}. */
export class Reply {
  readonly status: number;
  /** The number of the content type in the protocol; 0 when the headers name it. @internal */
  readonly kind: number;
  /** `[name, value, ...]`, names in lower case. @internal */
  readonly headers: readonly string[];
  /** @internal */
  readonly body: ReplyBody;
  /** The error behind the response of a handler that failed: it is logged, and the job counts as faulted. @internal */
  readonly failure: Failure | null;

  /** @internal */
  constructor(status: number, kind: number, headers: readonly string[], body: ReplyBody, failure: Failure | null = null) {
    this.status = status;
    this.kind = kind;
    this.headers = headers;
    this.body = body;
    this.failure = failure;
  }
}

/** The `kind` of a reply that only scripts make: its body is an entity tag, which becomes a header, followed by JSON. */
export const KIND_TAGGED = 255;
/** Length of an entity tag, including its quotes. */
export const TAG_LENGTH = 34;

/** A value that a handler threw, which can be anything, including `undefined`. */
export interface Failure {
  readonly error: unknown;
  /** Whether the response itself carries the full error to its recipient, so that it need not be logged. */
  readonly isReported?: boolean;
}

const NO_HEADERS: readonly string[] = [];

/** The media type of server-sent events. */
export const TEXT_EVENT_STREAM = 'text/event-stream';

/** Whether a response is a stream of server-sent events, which may last. */
export function isEventStream(headers: readonly string[]): boolean {
  for (let index = 0; index < headers.length; index += 2) {
    if (headers[index] === 'content-type') return headers[index + 1]!.startsWith(TEXT_EVENT_STREAM);
  }
  return false;
}

/**
 * Answers with JSON, whatever the value's type.
 *
 * ```js
 * return json({ id }, { status: 201, headers: { location: `/users/${id}` } });
 * ```
 * @throws TypeError when the value cannot be written as JSON.
 */
export function json(value: unknown, init?: ReplyInit): Reply {
  return make(toJson(value), KIND_JSON, 200, init);
}

/** JSON text; throws a TypeError for a value that has none. */
export function toJson(value: unknown): string {
  const text = JSON.stringify(value) as string | undefined;
  if (text === undefined) throw new TypeError(`a value of type ${typeof value} cannot be written as JSON`);
  return text;
}

/** Answers with text, `text/plain; charset=utf-8` unless the headers say otherwise. */
export function text(value: string, init?: ReplyInit): Reply {
  return make(String(value), KIND_TEXT, 200, init);
}

/**
 * Answers with anything a handler may return, under a status and headers of your choice.
 *
 * ```js
 * return reply(await request.bytes(), { headers: { 'content-type': 'image/png' } });
 * return reply(null, { status: 303, headers: { location: '/' } });
 * ```
 */
export function reply(value: Answer, init?: ReplyInit): Reply {
  const plain = toReply(value);
  const status = checkStatus(init?.status ?? plain.status);
  const own = init?.headers === undefined ? NO_HEADERS : headerList(init.headers);
  if (own.length === 0) return new Reply(status, plain.kind, plain.headers, plain.body, plain.failure);
  const headers = [...own];
  const typed = hasHeader(own, 'content-type');
  for (let index = 0; index < plain.headers.length; index += 2) {
    if (!hasHeader(own, plain.headers[index]!)) headers.push(plain.headers[index]!, plain.headers[index + 1]!);
  }
  return new Reply(status, typed ? KIND_NONE : plain.kind, headers, plain.body, plain.failure);
}

/** Options of {@link HttpError}. */
export interface HttpErrorInit {
  /** Headers of the answer, such as `retry-after`. */
  headers?: HeadersLike | undefined;
  /** The underlying error; kept for your logs, never sent. */
  cause?: unknown;
  /** Members added to the problem body, such as `{ field: 'email' }`. */
  extra?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * Throw it to answer with a status: the client gets `application/problem+json` (RFC 9457) with the message as `detail`.
 *
 * ```js
 * if (user === undefined) throw new HttpError(404, `no user ${id}`);
 * ```
 */
export class HttpError extends Error {
  override readonly name = 'HttpError';
  /** 400 to 599. */
  readonly status: number;
  /** @internal */
  readonly headers: readonly string[];
  /** @internal */
  readonly extra: Readonly<Record<string, unknown>>;

  constructor(status: number, message?: string, init: HttpErrorInit = {}) {
    super(message ?? statusText(status), init.cause === undefined ? undefined : { cause: init.cause });
    if (!Number.isInteger(status) || status < 400 || status > 599) {
      throw new RangeError(`the status of an HttpError is 400 to 599, not ${status}`);
    }
    this.status = status;
    this.headers = init.headers === undefined ? NO_HEADERS : headerList(init.headers);
    this.extra = init.extra ?? {};
  }
}

/** The response to an error that carries no message for clients. */
const UNKNOWN = { status: 500, message: 'the handler failed', headers: NO_HEADERS, extra: {}, isFailure: true };

/** The response to a thrown value: that of an HttpError or a SqlError, otherwise a 500 that does not reveal the cause. */
export function errorReply(error: unknown, requestId: string): Reply {
  const { status, message, headers, extra, isFailure } = problemOf(error);
  const problem = { type: 'about:blank', title: statusText(status), status, detail: message, request_id: requestId, ...extra };
  return new Reply(status, KIND_NONE, ['content-type', 'application/problem+json', ...headers], JSON.stringify(problem), isFailure ? { error } : null);
}

function problemOf(error: unknown): SqlProblem {
  if (error instanceof HttpError) return { status: error.status, message: error.message, headers: error.headers, extra: error.extra, isFailure: false };
  return error instanceof SqlError ? sqlProblem(error) : UNKNOWN;
}

/** A response for a handler that threw `error`, used instead of that of {@link errorReply}. */
export function failedReply(value: unknown, status: number, error: unknown): Reply {
  return new Reply(checkStatus(status), KIND_JSON, NO_HEADERS, toJson(value), { error });
}

/** The parts of a web `Response`. */
export interface KnownResponse {
  readonly status: number;
  readonly headers: readonly string[];
  readonly body: string | Uint8Array | null;
}

/** The method of a `Response` that gives what it was made of, unless it has a stream or was read meanwhile; see `web.ts`. */
export const KNOWN = Symbol('known');

/** Turns what a handler returned into status, headers and body; the rules are those of {@link Answer}. */
export function toReply(value: unknown): Reply {
  if (value === null || value === undefined) return new Reply(204, KIND_NONE, NO_HEADERS, null);
  if (typeof value === 'string') return new Reply(200, KIND_TEXT, NO_HEADERS, value);
  if (typeof value !== 'object') return json(value);
  if (value instanceof Reply) return value.kind === KIND_TAGGED ? untagged(value) : value;
  if (value instanceof Upgrade) throw new TypeError('a WebSocket is accepted by handlers in pools whose protocol is "framed", and not here');
  if (value instanceof Html) return new Reply(200, KIND_HTML, NO_HEADERS, value.text);
  if (value instanceof Uint8Array) return new Reply(200, KIND_BYTES, NO_HEADERS, value);
  if (value instanceof ArrayBuffer) return new Reply(200, KIND_BYTES, NO_HEADERS, new Uint8Array(value));
  if (isResponse(value)) {
    const known = (value as { [KNOWN]?(): KnownResponse | undefined })[KNOWN]?.();
    if (known !== undefined) return new Reply(known.status, KIND_NONE, known.headers, known.body);
    if (value.bodyUsed || value.body?.locked === true) throw new TypeError('the body of the Response has been read already, or is being read');
    const headers = headerList(value.headers);
    return new Reply(checkStatus(value.status), KIND_NONE, headers, value.body);
  }
  if (Symbol.asyncIterator in value) {
    return new Reply(200, KIND_BYTES, NO_HEADERS, value as AsyncIterable<unknown>);
  }
  return json(value);
}

/** A reply of {@link KIND_TAGGED} in the form that all others have. */
function untagged({ status, body, failure }: Reply): Reply {
  const text = body as string;
  return new Reply(status, KIND_JSON, ['etag', text.slice(0, TAG_LENGTH)], text.slice(TAG_LENGTH), failure);
}

/** Whether the value is a web `Response`, of any realm. Does not touch the global `Response`, because Node loads it on first use. */
function isResponse(value: object): value is Response {
  return (
    'headers' in value &&
    'arrayBuffer' in value &&
    typeof value.arrayBuffer === 'function' &&
    'status' in value &&
    typeof value.status === 'number'
  );
}

function make(body: string, kind: number, status: number, init: ReplyInit | undefined): Reply {
  if (init === undefined) return new Reply(status, kind, NO_HEADERS, body);
  const headers = init.headers === undefined ? NO_HEADERS : headerList(init.headers);
  const named = hasHeader(headers, 'content-type');
  return new Reply(checkStatus(init.status ?? status), named ? KIND_NONE : kind, headers, body);
}

function checkStatus(status: number): number {
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new RangeError(`the status of a reply is 200 to 599, not ${status}`);
  }
  return status;
}

function hasHeader(headers: readonly string[], name: string): boolean {
  for (let index = 0; index < headers.length; index += 2) if (headers[index] === name) return true;
  return false;
}

/** Longest header block of a reply. */
const HEADERS_BYTES_MAX = 65_536;

/** Makes `[name, value, ...]` with lower-case names. @internal @throws TypeError for a header that HTTP does not allow. */
export function headerList(headers: HeadersLike): readonly string[] {
  const list: string[] = [];
  const entries = Symbol.iterator in headers ? headers : Object.entries(headers);
  for (const [name, value] of entries as Iterable<[string, string | number | readonly string[]]>) {
    for (const single of Array.isArray(value) ? (value as readonly string[]) : [String(value)]) {
      if (!TOKEN.test(name)) throw new TypeError(`${JSON.stringify(name)} is not a header name`);
      if (!FIELD_VALUE.test(single)) {
        throw new TypeError(`the value ${JSON.stringify(single)} of header ${name} has characters HTTP does not allow`);
      }
      list.push(name.toLowerCase(), single);
    }
  }
  const size = pairsBytes(list);
  if (size > HEADERS_BYTES_MAX) throw new TypeError(`the reply's headers take ${size} bytes, at most ${HEADERS_BYTES_MAX}`);
  return list;
}

const STATUS_TEXTS: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  402: 'Payment Required',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  406: 'Not Acceptable',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  411: 'Length Required',
  412: 'Precondition Failed',
  413: 'Content Too Large',
  414: 'URI Too Long',
  415: 'Unsupported Media Type',
  416: 'Range Not Satisfiable',
  417: 'Expectation Failed',
  421: 'Misdirected Request',
  422: 'Unprocessable Content',
  423: 'Locked',
  424: 'Failed Dependency',
  425: 'Too Early',
  426: 'Upgrade Required',
  428: 'Precondition Required',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  451: 'Unavailable For Legal Reasons',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
  507: 'Insufficient Storage',
};

function statusText(status: number): string {
  return STATUS_TEXTS[status] ?? `Status ${status}`;
}
