import { readForm, type UploadedForm } from './form.js';
import { RequestHeaders } from './headers.js';
import { HttpError } from './reply.js';
import {
  HEADERS,
  ID,
  PARAMS,
  PATH,
  PEER,
  QUERY,
  ROUTE,
  bodyBytes,
  bodyText,
  concat,
  field,
  hasBody,
  isPlain,
  methodAndPath,
  methodLength,
  more,
  pairs,
  part,
  user,
  utf8,
  type Source,
} from './source.js';

/**
 * An HTTP request, the first argument of a handler. Everything is decoded on first access and cached, so a handler pays only
 * for what it reads.
 *
 * The methods that read the body return promises, as on the web. A body of up to 64 KiB arrives with the request, and its
 * promise is already resolved; a longer body is fetched from the client while it is read, at the reader's pace. The body can
 * be read once.
 */
export interface HttpRequest<Params = Record<string, string>> {
  /** `GET`, `POST`, ... in upper case, as received. */
  readonly method: string;
  /**
   * The absolute URL, such as `https://example.org/users/7?full=1`, from the `host` header. In pools, the scheme is that of the client, also
   * behind a proxy that the server trusts; in scripts and on standard input and output it is `http`.
   */
  readonly url: string;
  /** The path as received: starts with `/`, percent-encoding kept, without the query. */
  readonly path: string;
  /**
   * The values of `:name` and `*name` in the pattern that matched, percent-decoded: those of the SDK's router when it
   * routed the request, otherwise those of the route in `forebay.toml`.
   */
  readonly params: Readonly<Params>;
  /** The query as the web's `URLSearchParams`: `query.get('page')`, `query.getAll('tag')`. Empty when there is none. */
  readonly query: URLSearchParams;
  /** The headers; hop-by-hop ones such as `connection` stay in the server. */
  readonly headers: RequestHeaders;
  /** The cookies by name, percent-decoded where that is possible; the first of a repeated name counts. */
  readonly cookies: Readonly<Record<string, string>>;
  /** The client's address, such as `203.0.113.9` or `::1`; empty when it came over a Unix socket. */
  readonly ip: string;
  /**
   * The authenticated client; null where the route in `forebay.toml` does not ask for that (`auth`). It is not a header, so no client
   * can send it.
   */
  readonly user: User | null;
  /** The request's id: the `x-request-id` it came with, or the one the server gave it. It is in every log line. */
  readonly id: string;
  /** The pattern in `forebay.toml` that led here, such as `/users/*`. */
  readonly route: string;
  /** Parses the body as JSON. An invalid body is answered with 400. */
  json<T = unknown>(): Promise<T>;
  /** The body as text (UTF-8). */
  text(): Promise<string>;
  /** The body's bytes. */
  bytes(): Promise<Uint8Array>;
  /**
   * The fields and files of an `application/x-www-form-urlencoded` or `multipart/form-data` body; another content type is
   * answered with 415, a malformed body with 400.
   */
  form(): Promise<UploadedForm>;
  /** The body piece by piece, with back-pressure up to the client. */
  stream(): ReadableStream<Uint8Array>;
}

/** An authenticated client. */
export interface User {
  /** Its name: of the user, the client or the device. */
  readonly subject: string;
  /** The kind of credentials it has presented. */
  readonly kind: 'jwt' | 'token' | 'password' | 'api_key' | 'certificate' | 'oidc';
  /** Its scopes: what it may do. */
  readonly scopes: readonly string[];
  /** Further facts about it: the claims of its token that the configuration selects, or the names in its certificate. */
  readonly claims: Readonly<Record<string, unknown>>;
}

/** Supplies the rest of a body that did not arrive whole with the request. */
export interface BodySource {
  /** The next bytes, or null after the last. Rejects when the client disconnects or the server aborts the request. */
  read(): Promise<Uint8Array | null>;
  /** Stops the transfer: no more bytes are needed. */
  cancel(): void;
  /** The fields behind the body, `[name, value, ...]`, once `read` has returned null. */
  readonly trailers?: readonly string[] | null;
}

const BEYOND_ASCII = /[\x80-\xff]/;

/** Values decoded so far. An object literal, because the engine of scripts adds members one by one. */
interface RequestCache {
  bodyTaken?: true;
  method?: string;
  path?: string;
  params?: Record<string, string>;
  query?: URLSearchParams;
  headers?: RequestHeaders;
  cookies?: Record<string, string>;
  user?: User | null;
}

// Symbol members, because the script engine takes twice as long to construct an object with private ones.
const SOURCE = Symbol('source');
const HEAD = Symbol('head');
const CACHE = Symbol('cache');
const MATCH = Symbol('match');
const FROM = Symbol('from');

function cacheOf(request: WireRequest): RequestCache {
  return (request[CACHE] ??= {});
}

/** A matched route whose only parameter is the end of the path. */
interface RouteMatch {
  readonly names: readonly string[];
  readonly Params: new () => Record<string, string>;
}

/** Marks the body as read. @throws TypeError if it was read before. */
function takeBody(request: WireRequest): void {
  const cache = cacheOf(request);
  if (cache.bodyTaken) throw new TypeError('the body of this request has been read already; it can be read once');
  cache.bodyTaken = true;
}

/** A request whose parts are read from a {@link Source}. */
export class WireRequest implements HttpRequest {
  declare readonly [SOURCE]: Source;
  /** Method and path, once they have been decoded as Latin-1. */
  declare [HEAD]: string | undefined;
  /** Undefined until something is cached, since many handlers read nothing else. */
  declare [CACHE]: RequestCache | undefined;
  /** The matched route, whose parameter begins at `FROM` in `methodAndPath`; cleared when the parameters are read. */
  declare [MATCH]: RouteMatch | undefined;
  declare [FROM]: number;

  constructor(source: Source, head?: string) {
    this[SOURCE] = source;
    this[HEAD] = head;
  }

  get method(): string {
    return (cacheOf(this).method ??= this.methodAndPath.slice(0, methodLength(this[SOURCE])));
  }

  get path(): string {
    const cache = cacheOf(this);
    if (cache.path === undefined) {
      const head = this.methodAndPath;
      cache.path = BEYOND_ASCII.test(head) ? part(this[SOURCE], PATH) : head.slice(methodLength(this[SOURCE]));
    }
    return cache.path;
  }

  /** Method and path, concatenated and decoded as Latin-1, such as `GET/users`: the key of static routes. */
  get methodAndPath(): string {
    return (this[HEAD] ??= methodAndPath(this[SOURCE]));
  }

  /** Whether the text from `at` to the end of `methodAndPath` needs no decoding: not empty, ASCII, without percent-encoding. */
  isPlainFrom(at: number): boolean {
    return isPlain(this[SOURCE], this.methodAndPath, at);
  }

  get url(): string {
    // Behind the 16 bits of the port is a 1 for TLS. Sources of scripts have no connection.
    const scheme = this[SOURCE].connection > 0xffff ? 'https' : 'http';
    return `${scheme}://${this.field('host') ?? 'localhost'}${this.target}`;
  }

  /** The query as received, without `?`. @internal */
  get queryText(): string {
    return part(this[SOURCE], QUERY);
  }

  get query(): URLSearchParams {
    return (cacheOf(this).query ??= new URLSearchParams(part(this[SOURCE], QUERY)));
  }

  get route(): string {
    return part(this[SOURCE], ROUTE);
  }

  get params(): Readonly<Record<string, string>> {
    const matched = this[MATCH];
    if (matched !== undefined) {
      const params = new matched.Params();
      params[matched.names[0]!] = this.methodAndPath.slice(this[FROM]);
      this.params = params;
      return params;
    }
    const cache = cacheOf(this);
    if (cache.params === undefined) {
      const params = Object.create(null) as Record<string, string>;
      const found = pairs(this[SOURCE], PARAMS);
      for (let index = 0; index < found.length; index += 2) params[found[index]!] = found[index + 1]!;
      cache.params = params;
    }
    return cache.params;
  }

  /** Replaces the parameters of the server's route with those of the router's own match. */
  set params(params: Record<string, string>) {
    this[MATCH] = undefined;
    if (this[CACHE] === undefined) this[CACHE] = { params };
    else this[CACHE].params = params;
  }

  /** Like the setter of `params`, for a route whose only parameter is the text from `from` on, which needs no decoding. @internal */
  match(route: RouteMatch, from: number): void {
    this[MATCH] = route;
    this[FROM] = from;
  }

  get headers(): RequestHeaders {
    return (cacheOf(this).headers ??= new RequestHeaders(this[SOURCE]));
  }

  /** `headers.get(name)` for a name in lower case, without creating the headers object. @internal */
  field(name: string): string | null {
    return field(this[SOURCE], name);
  }

  get cookies(): Readonly<Record<string, string>> {
    return (cacheOf(this).cookies ??= readCookies(this.field('cookie') ?? ''));
  }

  get ip(): string {
    return part(this[SOURCE], PEER);
  }

  get id(): string {
    return part(this[SOURCE], ID);
  }

  get user(): User | null {
    const cache = cacheOf(this);
    return cache.user === undefined ? (cache.user = user(this[SOURCE])) : cache.user;
  }

  async json<T = unknown>(): Promise<T> {
    const text = await this.text();
    try {
      return JSON.parse(text) as T;
    } catch (error) {
      throw new HttpError(400, 'the body is not JSON', { cause: error });
    }
  }

  /** The result of `text()` if the whole body has arrived; undefined if it is still to be read. */
  textNow(): string | undefined {
    if (more(this[SOURCE]) !== null) return undefined;
    takeBody(this);
    return bodyText(this[SOURCE]);
  }

  /** The result of `bytes()` if the whole body has arrived; undefined if it is still to be read. */
  bytesNow(): Uint8Array | undefined {
    if (more(this[SOURCE]) !== null) return undefined;
    takeBody(this);
    return bodyBytes(this[SOURCE]);
  }

  async text(): Promise<string> {
    return this.textNow() ?? utf8(await this.bytes());
  }

  async bytes(): Promise<Uint8Array> {
    const { first, rest } = this.open();
    if (rest === null) return first;
    const parts: Uint8Array[] = [first];
    for (let part; (part = await rest.read()) !== null; ) parts.push(part);
    return concat(parts);
  }

  async form(): Promise<UploadedForm> {
    return readForm(this.field('content-type') ?? '', await this.bytes());
  }

  stream(): ReadableStream<Uint8Array> {
    const { first, rest } = this.open();
    let pending: Uint8Array | null = first.length > 0 ? first : null;
    return new ReadableStream<Uint8Array>(
      {
        async pull(controller) {
          const part = pending ?? (await rest?.read()) ?? null;
          pending = null;
          if (part === null) controller.close();
          else controller.enqueue(part);
        },
        cancel: () => rest?.cancel(),
      },
      { highWaterMark: 0 },
    );
  }

  /** The path and the query as received. @internal */
  get target(): string {
    const query = part(this[SOURCE], QUERY);
    return query === '' ? this.path : `${this.path}?${query}`;
  }

  /** `[name, value, ...]` of the headers, names in lower case. The caller may change the array. @internal */
  headerLines(): string[] {
    return pairs(this[SOURCE], HEADERS);
  }

  /** Whether a part of the body is still to come. @internal */
  get isIncomplete(): boolean {
    return more(this[SOURCE]) !== null;
  }

  /** Starts to read the body: what has arrived, and the source of the rest if there is more. @internal */
  open(): { first: Uint8Array; rest: BodySource | null } {
    takeBody(this);
    return { first: bodyBytes(this[SOURCE]), rest: more(this[SOURCE]) };
  }

  /** Whether `stream()` would yield anything. */
  get hasBody(): boolean {
    return this.isIncomplete || hasBody(this[SOURCE]);
  }

  /** The view of a request that `console.log(request)` prints in Node and Bun. */
  [Symbol.for('nodejs.util.inspect.custom')](): object {
    const { method, url, params, ip, id } = this;
    return { method, url, params, headers: this.headers.toJSON(), ip, id };
  }
}

const MEMBERS = WireRequest.prototype;

/**
 * Makes a request whose method and path are known. A literal, because the script engine needs a quarter less time for it than for a
 * constructor.
 */
export function requestOf(source: Source, head: string): WireRequest {
  return { __proto__: MEMBERS, [SOURCE]: source, [HEAD]: head } as unknown as WireRequest;
}

function readCookies(header: string): Record<string, string> {
  const cookies = Object.create(null) as Record<string, string>;
  for (const pair of header.split(';')) {
    const equals = pair.indexOf('=');
    if (equals < 0) continue;
    const name = pair.slice(0, equals).trim();
    let value = pair.slice(equals + 1).trim();
    if (value.startsWith('"') && value.endsWith('"') && value.length > 1) value = value.slice(1, -1);
    cookies[name] ??= decodeCookie(value);
  }
  return cookies;
}

function decodeCookie(value: string): string {
  try {
    return value.includes('%') ? decodeURIComponent(value) : value;
  } catch {
    return value;
  }
}
