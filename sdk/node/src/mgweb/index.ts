/**
 * Handler modules of mg_web: a `Router` whose handlers get a plain request object and a context that lives as long as the worker, and
 * return `{ payload, status, headers }`.
 *
 * ```js
 * import { Router } from 'forebay/mgweb';
 *
 * const router = new Router();
 * router.register('mgw-router/glsdb');
 * router.get('/mgweb/user/:userId', (Request, ctx) => {
 *   const person = new ctx.glsdb.node('Person.data');
 *   return { payload: { key: Request.params.userId, data: person.$(Request.params.userId).document } };
 * });
 * export const handler = router.handler();
 * ```
 *
 * @module
 */
import type { Context } from '../context.js';
import { glsDB } from '../glsdb/index.js';
import type { Handler } from '../handler.js';
import { mclass } from '../mgdbx/mclass.js';
import { mcursor } from '../mgdbx/mcursor.js';
import { mglobal } from '../mgdbx/mglobal.js';
import { server, type Key, type ServerOptions } from '../mgdbx/server.js';
import { HttpError, errorReply, failedReply, json, reply, type Answer } from '../reply.js';
import type { HttpRequest, WireRequest } from '../request.js';
import { router as plainRouter } from '../router.js';

/** The request as a handler sees it. */
export interface MgRequest {
  method: string;
  /** The path, without the query. */
  url: string;
  /** The pattern that matched. */
  routerPath: string;
  /** Values of `:name` and `*` in the pattern. */
  params: Record<string, string>;
  /** Parameters of the query; the last value of a repeated name counts. */
  query: Record<string, string>;
  /** The body: parsed if the content type is JSON and the text is valid, otherwise text. */
  body: any;
  /** All headers; names are written as `Content-Type`. */
  headers: Record<string, string>;
  ip: string;
  hostname: string;
  protocol: string;
}

/** The response of a handler. */
export interface MgResponse {
  /** Sent as JSON, or unchanged if `headers` name another content type. */
  payload?: unknown;
  /** 200 by default. */
  status?: number | undefined;
  headers?: Record<string, string> | undefined;
}

/** The context shared by all handlers of a worker. */
export interface MgContext {
  /** Present after `register('mgw-router/glsdb')`. */
  glsdb: glsDB;
  /** Present after `register('mgw-router/mgdbx')`. */
  mgdbx: MgDbx;
  [name: string]: any;
}

/** The mg-dbx interface with an open connection. */
export interface MgDbx {
  type: string;
  db: server;
  mglobal: typeof mglobal;
  mcursor: typeof mcursor;
  mclass: typeof mclass;
  /** A global or a node in one; repeated calls with the same arguments usually return the same object. */
  use(global: string, ...keys: Key[]): mglobal;
}

/** Answers a request. */
export type MgHandler = (this: Router, Request: MgRequest, ctx: MgContext) => MgResponse | Promise<MgResponse>;

/** The argument of `register`: the name of a plugin, or a function that extends the router. */
export type Plugin = 'mgw-router/glsdb' | 'mgw-router/mgdbx' | ((this: Router, options?: any) => void);

/** Options of a {@link Router}. */
export interface RouterOptions {
  /** Log the request of a failed handler: route, parameters and query. Its error is always logged. */
  logging?: boolean | undefined;
}

const METHODS = ['get', 'post', 'put', 'delete', 'head', 'options', 'patch'] as const;

/** Maximum number of globals and nodes cached by `use`. Programs use few of them, but keys from requests are unlimited. */
const USED_MAX = 256;

/** Header names whose spelling in mg_web is not just capitalized words. */
const NAMES: Readonly<Record<string, string>> = { etag: 'ETag', te: 'TE', dnt: 'DNT', 'www-authenticate': 'WWW-Authenticate' };

/** A router with the interface of mg_web_router. A request without a matching route gets 400 and `{"error":"Invalid Request"}`. */
export class Router {
  readonly logging: boolean;
  /** The `ctx` argument of handlers. */
  readonly context: MgContext = {} as MgContext;
  /**
   * The export of a handler file: `export const handler = router.handler()`, or `router.handler` itself.
   */
  readonly handler: Handler & { (): Handler; onStop(): void };
  readonly #routes = plainRouter();
  readonly #listeners = new Map<string, (data?: any) => void>();

  constructor({ logging = false }: RouterOptions = {}) {
    this.logging = logging;
    const find = this.#routes.compile();
    const handle: Handler = (request, ctx) => {
      try {
        return find(request, ctx);
      } catch (error) {
        // Only the search for a route can throw here: errors of handlers have been answered already.
        return reply({ error: error instanceof HttpError && error.status === 400 ? error.message : 'Invalid Request' }, { status: 400 });
      }
    };
    const onStop = () => this.emit('stop');
    const handler = ((request?: HttpRequest, ctx?: Context) =>
      request === undefined ? handler : handle(request, ctx!)) as Router['handler'];
    this.handler = Object.assign(handler, { onStop });
  }

  /** Adds `ctx.glsdb` or `ctx.mgdbx`, or runs your own function. For the first two, `options` are those of `server.open`. */
  register(plugin: Plugin, options?: ServerOptions): void {
    if (plugin === 'mgw-router/glsdb') glsdb.call(this, options);
    else if (plugin === 'mgw-router/mgdbx') mgdbx.call(this, options);
    else if (typeof plugin === 'function') plugin.call(this, options);
    else throw new TypeError(`register takes 'mgw-router/glsdb', 'mgw-router/mgdbx' or a function, not ${JSON.stringify(plugin)}`);
  }

  /** Adds a route: in the pattern, `:name` matches one segment and a final `*` the rest. */
  route(method: string, url: string, handler: MgHandler): void {
    const name = method.toLowerCase() as (typeof METHODS)[number];
    if (!METHODS.includes(name)) throw new TypeError(`cannot route the method ${method}`);
    if (typeof handler !== 'function') throw new TypeError(`the handler of ${url} is ${typeof handler}, not a function`);
    this.#routes[name](url, (request, ctx) => this.#answer(request, ctx, url, handler));
  }

  get(url: string, handler: MgHandler): void {
    this.route('GET', url, handler);
  }

  post(url: string, handler: MgHandler): void {
    this.route('POST', url, handler);
  }

  put(url: string, handler: MgHandler): void {
    this.route('PUT', url, handler);
  }

  delete(url: string, handler: MgHandler): void {
    this.route('DELETE', url, handler);
  }

  head(url: string, handler: MgHandler): void {
    this.route('HEAD', url, handler);
  }

  options(url: string, handler: MgHandler): void {
    this.route('OPTIONS', url, handler);
  }

  patch(url: string, handler: MgHandler): void {
    this.route('PATCH', url, handler);
  }

  /** Adds a route whose handler returns an async iterable of event texts as payload. */
  sse(url: string, handler: MgHandler): void {
    this.route('GET', url, async function (Request, ctx) {
      const { payload, status, headers } = await handler.call(this, Request, ctx);
      return { payload, status, headers: { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-cache', ...headers } };
    });
  }

  /** Listens to `error` (a handler failed) or `stop` (the worker ends). Each has one listener at most. */
  on(type: string, listener: (this: Router, data?: any) => void): void {
    if (!this.#listeners.has(type)) this.#listeners.set(type, listener);
  }

  off(type: string): void {
    this.#listeners.delete(type);
  }

  emit(type: string, data?: unknown): void {
    this.#listeners.get(type)?.call(this, data);
  }

  #answer(request: HttpRequest, ctx: Context, url: string, handler: MgHandler): Answer {
    const wire = request as WireRequest;
    try {
      // A body that arrived with the request needs no promise.
      const here = wire.hasBody ? wire.textNow() : '';
      if (here !== undefined) return this.#run(plainRequest(request, url, here), request, ctx, handler);
    } catch (error) {
      return Promise.reject(error as Error);
    }
    return request.text().then((text) => this.#run(plainRequest(request, url, text), request, ctx, handler));
  }

  #run(plain: MgRequest, request: HttpRequest, ctx: Context, handler: MgHandler): Answer {
    try {
      const response = handler.call(this, plain, this.context);
      if (!(response instanceof Promise)) return toAnswer(response);
      return response.then(toAnswer).catch((error: unknown) => this.#failed(error, plain, request, ctx));
    } catch (error) {
      return this.#failed(error, plain, request, ctx);
    }
  }

  #failed(error: unknown, plain: MgRequest, request: HttpRequest, ctx: Context): Answer {
    const problem = errorReply(error, request.id);
    if (problem.failure === null) return problem;
    const text = `Error running handler for ${request.method} ${request.path}`;
    const caught = error instanceof Error ? (error.stack ?? String(error)) : String(error);
    if (this.logging) ctx.log.error(text, { route: plain.routerPath, params: plain.params, query: plain.query });
    this.emit('error', { error: text, caughtError: caught });
    return failedReply({ error: 'Error Running Handler' }, 500, error);
  }
}

/** Adds `ctx.glsdb`, as `router.register(glsdb, options)`. */
export function glsdb(this: Router, options?: ServerOptions): void {
  const database = new glsDB();
  database.open(options);
  this.context.glsdb = database;
}

/** Adds `ctx.mgdbx`, as `router.register(mgdbx, options)`. */
export function mgdbx(this: Router, options?: ServerOptions): void {
  const db = new server();
  if (db.open(options) === '') throw new Error(db.geterrormessage());
  const nodes = new Map<string, mglobal>();
  this.context.mgdbx = {
    type: options?.type ?? 'Forebay',
    db,
    mglobal,
    mcursor,
    mclass,
    use(global, ...keys) {
      const name = JSON.stringify([global, ...keys.map(String)]);
      let node = nodes.get(name);
      if (node === undefined) {
        if (nodes.size >= USED_MAX) nodes.clear();
        nodes.set(name, (node = new mglobal(db, global, ...keys)));
      }
      return node;
    },
  };
}

function plainRequest(request: HttpRequest, routerPath: string, text: string): MgRequest {
  const plain = new PlainRequest(request, routerPath);
  plain.body = text;
  if (text !== '' && /^application\/json\s*(;|$)/i.test(request.headers.get('content-type') ?? '')) {
    try {
      plain.body = JSON.parse(text);
    } catch {
      // As in mg_web, an invalid body stays text.
    }
  }
  return plain;
}

/** Decodes headers and query on first access. */
class PlainRequest implements MgRequest {
  readonly #request: HttpRequest;
  readonly routerPath: string;
  body: any = '';
  #query: Record<string, string> | undefined;
  #headers: Record<string, string> | undefined;

  constructor(request: HttpRequest, routerPath: string) {
    this.#request = request;
    this.routerPath = routerPath;
  }

  get method(): string {
    return this.#request.method;
  }

  get url(): string {
    return this.#request.path;
  }

  get params(): Record<string, string> {
    return this.#request.params;
  }

  get query(): Record<string, string> {
    return (this.#query ??= Object.fromEntries(this.#request.query));
  }

  get headers(): Record<string, string> {
    return (this.#headers ??= Object.fromEntries(
      Object.entries(this.#request.headers.toJSON()).map(([name, value]) => [headerName(name), value]),
    ));
  }

  get ip(): string {
    return this.#request.ip;
  }

  get hostname(): string {
    return this.#request.headers.get('host') ?? '';
  }

  get protocol(): string {
    return 'http';
  }
}

function headerName(name: string): string {
  return NAMES[name] ?? name.replace(/(^|-)[a-z]/g, (start) => start.toUpperCase());
}

function toAnswer(response: MgResponse | undefined): Answer {
  const { payload = null, status = 200, headers } = response ?? {};
  if (headers === undefined) {
    if (payload === null || payload === '') return reply(null, { status });
    return json(payload, status === 200 ? undefined : { status });
  }
  const named = Object.keys(headers).find((name) => name.toLowerCase() === 'content-type');
  const type = named === undefined ? 'application/json' : headers[named]!;
  const body = payload === null || payload === '' ? null : /^application\/json\s*$/i.test(type) ? JSON.stringify(payload) : payload;
  // The server manages connections itself.
  const otherHeaders = Object.entries(headers).filter(([name]) => name !== named && name.toLowerCase() !== 'connection');
  return reply(body, { status, headers: { ...Object.fromEntries(otherHeaders), 'content-type': type } });
}
