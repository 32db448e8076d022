/**
 * The web's `Request` and `Response` at less cost. Those of Node take longer to make than most handlers to run, and neither runtime tells the
 * text that a response was made of. A request is therefore one of {@link lightRequest}, and the global `Response` remembers its body.
 */
import type { Context } from './context.js';
import { KNOWN, headerList, toJson, type KnownResponse } from './reply.js';
import type { WireRequest } from './request.js';

type Known = KnownResponse['body'];

/** Statuses of responses that cannot have a body. */
const BODILESS = [204, 205, 304];
/** Members of requests and responses that read their body. */
const READS = ['arrayBuffer', 'blob', 'body', 'bytes', 'clone', 'formData', 'json', 'text'];
const isBun = process.versions['bun'] !== undefined;

/** Has the global `Response` remember its body from now on. In Node, this loads its implementation of `fetch`, which takes milliseconds. */
export function rememberBodies(): void {
  const native = globalThis.Response;
  const made = isBun ? rememberingResponse(native) : lightResponse(native);
  Object.defineProperty(made, 'name', { value: 'Response' });
  // Responses of `fetch` are of the native class.
  Object.defineProperty(made, Symbol.hasInstance, { value: (each: unknown) => each instanceof native });
  Object.defineProperty(globalThis, 'Response', { value: made, configurable: true, writable: true, enumerable: false });
}

/** A native response that remembers its body: functions of Bun such as `Bun.write` take no other. */
function rememberingResponse(native: typeof Response): typeof Response {
  return class extends native {
    readonly #body: Known | undefined;

    constructor(body?: ConstructorParameters<typeof Response>[0], init?: ResponseInit) {
      super(body, init);
      this.#body = knownBody(body);
    }

    static override json(value: unknown, init?: ResponseInit): Response {
      const headers = new Headers(init?.headers);
      if (!headers.has('content-type')) headers.set('content-type', 'application/json;charset=utf-8');
      return new this(toJson(value), { ...init, headers });
    }

    [KNOWN](): KnownResponse | undefined {
      const body = this.#body;
      return body === undefined || this.bodyUsed ? undefined : { status: this.status, headers: listOf(this.headers), body };
    }
  };
}

function knownBody(body: unknown): Known | undefined {
  if (body === undefined || body === null) return null;
  if (typeof body === 'string') return body;
  return body instanceof Uint8Array ? body.slice() : undefined;
}

/** A response that makes the native one only for what it cannot do itself. */
function lightResponse(native: typeof Response): typeof Response {
  class LightResponse {
    /** Undefined once only the native response knows. */
    #body: Known | undefined;
    readonly #status: number = 200;
    readonly #headers: readonly string[] = [];
    #native: Response | null = null;

    constructor(body?: ConstructorParameters<typeof Response>[0], init?: ResponseInit) {
      this.#body = knownBody(body);
      const status = init?.status ?? 200;
      const isPlain = Number.isInteger(status) && status >= 200 && status < 600 && (this.#body === null || !BODILESS.includes(status));
      if (this.#body === undefined || !isPlain || init?.statusText) {
        this.#native = new native(body, init);
        if (typeof this.#body !== 'string') this.#body = undefined;
        return;
      }
      this.#status = status;
      const given = init?.headers;
      const headers = given === undefined ? [] : headerList(given as never);
      const isTyped = typeof this.#body !== 'string' || headers.some((name, index) => index % 2 === 0 && name === 'content-type');
      this.#headers = isTyped ? headers : [...headers, 'content-type', 'text/plain;charset=UTF-8'];
    }

    static json(value: unknown, init?: ResponseInit): unknown {
      const headers = headerList((init?.headers ?? {}) as never);
      const isTyped = headers.some((name, index) => index % 2 === 0 && name === 'content-type');
      const all = isTyped ? headers : [...headers, 'content-type', 'application/json'];
      return new this(toJson(value), { ...init, headers: pairsOf(all) });
    }

    get status(): number {
      return this.#native?.status ?? this.#status;
    }

    [KNOWN](): KnownResponse | undefined {
      const body = this.#body;
      if (body === undefined) return undefined;
      if (this.#native === null) return { status: this.#status, headers: this.#headers, body };
      return { status: this.#native.status, headers: listOf(this.#native.headers), body };
    }

    /** The native response, of which `name` is needed. */
    static native(response: LightResponse, name: string): Response {
      response.#native ??= new native(response.#body as string | null, { status: response.#status, headers: pairsOf(response.#headers) });
      if (READS.includes(name)) response.#body = undefined;
      return response.#native;
    }
  }
  inherit(LightResponse, native, LightResponse.native);
  return LightResponse as unknown as typeof Response;
}

/** Gives a class all members of a native one that it does not have itself, by way of the native object. */
function inherit<Light extends object>(
  light: { prototype: Light },
  native: { prototype: object },
  nativeOf: (object: Light, name: string) => object,
): void {
  Object.setPrototypeOf(light, native);
  Object.setPrototypeOf(light.prototype, native.prototype);
  for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(native.prototype))) {
    if (Object.hasOwn(light.prototype, name)) continue;
    const member = (object: Light): unknown => Reflect.get(nativeOf(object, name), name);
    const call = function (this: Light, ...values: unknown[]): unknown {
      return (member(this) as (...values: unknown[]) => unknown).apply(nativeOf(this, name), values);
    };
    const get = function (this: Light): unknown {
      return member(this);
    };
    Object.defineProperty(light.prototype, name, typeof value === 'function' ? { value: call, configurable: true, writable: true } : { get, configurable: true });
  }
}

function pairsOf(list: readonly string[]): [string, string][] {
  const pairs: [string, string][] = [];
  for (let index = 0; index < list.length; index += 2) pairs.push([list[index]!, list[index + 1]!]);
  return pairs;
}

function listOf(headers: Headers): string[] {
  const list: string[] = [];
  for (const [name, value] of headers) list.push(name, value);
  return list;
}

/** The web's form of a request. */
export function webRequest(request: WireRequest, context: Context): Request {
  return new (requestClass ??= lightRequest())(request, context);
}

type RequestClass = new (request: WireRequest, context: Context) => Request;
type Input = ConstructorParameters<typeof Request>[0];
let requestClass: RequestClass | undefined;

function initOf(request: WireRequest): RequestInit & { duplex?: 'half' } {
  const init: RequestInit & { duplex?: 'half' } = { method: request.method, headers: pairsOf(request.headerLines()) };
  if (request.hasBody && request.method !== 'GET' && request.method !== 'HEAD') {
    init.body = request.stream();
    init.duplex = 'half';
  }
  return init;
}

/** A request that makes the native one only for what it cannot do itself. */
function lightRequest(): RequestClass {
  const native = globalThis.Request;
  const nativeFetch = globalThis.fetch;

  class LightRequest {
    readonly #request: WireRequest;
    readonly #context: Context;
    #native: Request | null = null;
    #headers: Headers | null = null;
    #isRead = false;

    constructor(request: WireRequest, context: Context) {
      this.#request = request;
      this.#context = context;
    }

    get method(): string {
      return this.#request.method;
    }

    get url(): string {
      return this.#request.url;
    }

    get headers(): Headers {
      return this.#native?.headers ?? (this.#headers ??= new Headers(pairsOf(this.#request.headerLines())));
    }

    get signal(): AbortSignal {
      return this.#context.signal;
    }

    get ip(): string {
      return this.#request.ip;
    }

    get bodyUsed(): boolean {
      return this.#native?.bodyUsed ?? this.#isRead;
    }

    async text(): Promise<string> {
      if (this.#native !== null || this.#isRead) return LightRequest.native(this).text();
      this.#isRead = true;
      return this.#request.text();
    }

    async json(): Promise<unknown> {
      return JSON.parse(await this.text()) as unknown;
    }

    static native(each: LightRequest): Request {
      if (each.#native === null) {
        const init = { ...initOf(each.#request), signal: each.#context.signal };
        if (each.#headers !== null) init.headers = each.#headers;
        each.#native = new native(each.#request.url, init);
      }
      return each.#native;
    }

    /** The native request in the place of a light one. */
    static unwrap<Value>(value: Value): Value | Request {
      return value instanceof Object && #native in value ? LightRequest.native(value as LightRequest) : value;
    }
  }
  inherit(LightRequest, native, LightRequest.native);
  const { unwrap } = LightRequest;
  const made = class extends native {
    static override [Symbol.hasInstance](value: unknown): boolean {
      return value instanceof native;
    }

    constructor(input: Input, init?: RequestInit) {
      super(unwrap(input) as Input, init);
    }
  };
  Object.defineProperty(made, 'name', { value: 'Request' });
  globalThis.Request = made;
  globalThis.fetch = (input, init) => nativeFetch(unwrap(input) as Input, init);
  return LightRequest as never;
}
