/** Requests and responses (Fetch, sections 5.4 and 5.5). */
import { KNOWN, type KnownResponse } from '../../reply.js';
import { TOKEN } from '../../grammar.js';
import { AbortController, AbortSignal } from './abort.js';
import { Body, type BodyInit } from './body.js';
import { Headers, type HeadersInit } from './headers.js';
import { URL } from './url.js';

export interface RequestInit {
  method?: string;
  headers?: HeadersInit;
  body?: BodyInit | null;
  redirect?: 'follow' | 'manual' | 'error';
  signal?: AbortSignal | null;
}

const UPPER_CASED = /^(?:delete|get|head|options|post|put|patch)$/i;

export class Request extends Body {
  readonly method: string;
  readonly url: string;
  readonly redirect: 'follow' | 'manual' | 'error';
  readonly signal: AbortSignal;

  constructor(input: unknown, given?: RequestInit | null) {
    const init = given ?? {};
    const from = input instanceof Request ? input : null;
    const method = methodOf(init.method ?? from?.method ?? 'GET');
    const hasNone = method === 'GET' || method === 'HEAD';
    if (hasNone && init.body !== undefined && init.body !== null) {
      throw new TypeError('Request with GET/HEAD method cannot have body.');
    }
    super(new Headers(init.headers ?? from?.headers), init.body ?? from?.split() ?? null);
    this.method = method;
    this.url = from?.url ?? new URL(input).href;
    this.redirect = init.redirect ?? from?.redirect ?? 'follow';
    this.signal = init.signal ?? from?.signal ?? new AbortController().signal;
  }

  clone(): Request {
    return new Request(this);
  }

  get [Symbol.toStringTag](): string {
    return 'Request';
  }
}

function methodOf(method: unknown): string {
  const text = String(method);
  if (!TOKEN.test(text)) throw new TypeError(`${JSON.stringify(text)} is not a method`);
  return UPPER_CASED.test(text) ? text.toUpperCase() : text;
}

export interface ResponseInit {
  status?: number;
  statusText?: string;
  headers?: HeadersInit;
}

/** Properties of a response that only a fetch sets. */
export interface Origin {
  url: string;
  redirected: boolean;
}

export class Response extends Body {
  readonly status: number;
  readonly statusText: string;
  #origin: Origin = { url: '', redirected: false };
  #isError = false;

  constructor(body: BodyInit | null = null, given?: ResponseInit | null) {
    const init = given ?? {};
    const status = init.status ?? 200;
    if (!Number.isInteger(status) || status < 200 || status > 599) {
      throw new RangeError(`init["status"] must be in the range of 200 to 599, inclusive.`);
    }
    if (body !== null && body !== undefined && [204, 205, 304].includes(status)) {
      throw new TypeError(`Response constructor: Invalid response status code ${status}`);
    }
    super(new Headers(init.headers), body);
    this.status = status;
    this.statusText = String(init.statusText ?? '');
  }

  static json(value: unknown, init: ResponseInit = {}): Response {
    const text = JSON.stringify(value) as string | undefined;
    if (text === undefined) throw new TypeError('Value is not JSON serializable');
    const headers = new Headers(init.headers);
    if (!headers.has('content-type')) headers.set('content-type', 'application/json');
    return new Response(text, { ...init, headers });
  }

  static redirect(url: string, status = 302): Response {
    if (![301, 302, 303, 307, 308].includes(status)) throw new RangeError(`Invalid status code ${status}`);
    return new Response(null, { status, headers: { location: new URL(url).href } });
  }

  static error(): Response {
    const response = new Response();
    response.#isError = true;
    return response;
  }

  /** Makes the response to a fetch. @internal */
  static fetched(body: BodyInit | null, init: ResponseInit, origin: Origin): Response {
    const response = new Response(body, init);
    response.#origin = origin;
    return response;
  }

  /** The parts of it. @internal */
  [KNOWN](): KnownResponse | undefined {
    const body = this.whole;
    return body === undefined ? undefined : { status: this.status, headers: [...this.headers].flat(), body };
  }

  get ok(): boolean {
    return this.status >= 200 && this.status < 300;
  }

  get url(): string {
    return this.#origin.url;
  }

  get redirected(): boolean {
    return this.#origin.redirected;
  }

  get type(): string {
    return this.#isError ? 'error' : this.#origin.url === '' ? 'default' : 'basic';
  }

  clone(): Response {
    const { status, statusText, headers } = this;
    return Response.fetched(this.split(), { status, statusText, headers }, this.#origin);
  }

  get [Symbol.toStringTag](): string {
    return 'Response';
  }
}
