/**
 * Calls handlers in a unit test, without a server:
 *
 * ```js
 * import { testing } from 'forebay/testing';
 * import * as api from './api.mjs';
 *
 * const app = testing(api);
 * const response = await app.get('/helloworld');   // a web Response
 * assert.equal(response.status, 200);
 * assert.deepEqual(await response.json(), { hello: 'world' });
 * await app.stop();
 * ```
 *
 * `serve` starts the real server instead, for tests of what `forebay.toml` says.
 *
 * @module
 */
import type { Context, Log, WorkerContext, WorkerInfo, WorkerState } from './context.js';
import { loadHandler, type FetchHandler, type Handler, type LoadedHandler } from './handler.js';
import { errorReply, toReply, type Reply } from './reply.js';
import { WireRequest, type User } from './request.js';
import { Router } from './router.js';
import { freshStore } from './test-store.js';
import { CONTENT_TYPES, requestPayload, type Bytes } from './wire.js';

export { serve, type ServeOptions, type TestServer } from './test-server.js';

/** A test request: the web's `RequestInit`, and what the server would add. */
export interface TestRequest extends RequestInit {
  /** Sent as the JSON body, with its content type. */
  json?: unknown;
  /** Parameters of the server's route; a router fills in those of its own patterns. */
  params?: Readonly<Record<string, string>>;
  /** The client's address; 127.0.0.1 when left out. */
  ip?: string;
  /** The authenticated client; only its `subject` is required. Without it the request is anonymous. */
  user?: Partial<User> & { readonly subject: string };
  /** Milliseconds until the deadline; none when left out. */
  deadlineMs?: number;
}

/** A log line that a handler wrote. */
export interface TestLogLine {
  level: 'debug' | 'info' | 'warn' | 'error';
  message: string;
  fields: Readonly<Record<string, unknown>>;
}

/** A handler under test. The start hooks run before the first request; requests may run concurrently. */
export interface TestApp {
  /** The `ctx.state` that the handler sees. */
  readonly state: WorkerState;
  /** Log lines of the handler, oldest first. */
  readonly logs: readonly TestLogLine[];
  /** Failures of the handler: everything it threw except an `HttpError`, or a `SqlError` answered with 503 or a status below 500. */
  readonly errors: readonly unknown[];
  get(path: string, init?: TestRequest): Promise<Response>;
  post(path: string, init?: TestRequest): Promise<Response>;
  put(path: string, init?: TestRequest): Promise<Response>;
  patch(path: string, init?: TestRequest): Promise<Response>;
  delete(path: string, init?: TestRequest): Promise<Response>;
  head(path: string, init?: TestRequest): Promise<Response>;
  options(path: string, init?: TestRequest): Promise<Response>;
  /** Sends a request with any method: `app.request('PROPFIND', '/folder?depth=1')`. */
  request(method: string, path: string, init?: TestRequest): Promise<Response>;
  /** Runs the start hooks now, if they have not run. */
  start(): Promise<void>;
  /** Runs the stop hooks, then removes the store. */
  stop(): Promise<void>;
}

/**
 * Prepares a handler for calls: a handler module (`import * as module`), a router, a function, or an object with fetch.
 *
 * The handler has a store: the one that `import { store } from 'forebay'` gives in a worker of the server is here in a temporary folder. It is
 * empty after each call of `testing`, belongs to all handlers of this process, and is removed by `stop()`, or when the process exits. If the
 * environment variable `FOREBAY_STORE` names the folder of a store, that store is used and stays.
 *
 * An error that the handler throws is answered as by the server. A failure is also printed to standard error, with its stack and causes.
 */
export function testing(handler: object | Handler | Router | FetchHandler): TestApp {
  const bare = handler instanceof Router || typeof handler === 'function' || 'fetch' in handler;
  return new App(bare ? { default: handler } : handler);
}

class App implements TestApp {
  readonly state: WorkerState = Object.create(null);
  readonly logs: TestLogLine[] = [];
  readonly errors: unknown[] = [];
  readonly #module: object;
  readonly #context: WorkerContext;
  readonly #removeStore = freshStore();
  #loaded: Promise<LoadedHandler> | null = null;
  #requests = 0;

  constructor(module: object) {
    this.#module = module;
    const write = (level: TestLogLine['level']) => (message: string, fields = {}) =>
      void this.logs.push({ level, message, fields });
    const log: Log = { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
    this.#context = { state: this.state, worker: { id: 0, pool: 'test', pid: process.pid }, log };
  }

  get = (path: string, init?: TestRequest) => this.request('GET', path, init);
  post = (path: string, init?: TestRequest) => this.request('POST', path, init);
  put = (path: string, init?: TestRequest) => this.request('PUT', path, init);
  patch = (path: string, init?: TestRequest) => this.request('PATCH', path, init);
  delete = (path: string, init?: TestRequest) => this.request('DELETE', path, init);
  head = (path: string, init?: TestRequest) => this.request('HEAD', path, init);
  options = (path: string, init?: TestRequest) => this.request('OPTIONS', path, init);

  async request(method: string, path: string, init: TestRequest = {}): Promise<Response> {
    const { handle } = await this.#load();
    const payload = await payloadOf(method, path, init, `test-${++this.#requests}`);
    const request = new WireRequest({ bytes: payload, at: 0, end: payload.length, more: null, connection: 0 });
    const context = new TestContext(this.#context, init);
    let reply: Reply;
    try {
      reply = toReply(await handle(request, context));
    } catch (error) {
      reply = errorReply(error, request.id);
    }
    if (reply.failure !== null) {
      const { error } = reply.failure;
      this.errors.push(error);
      console.error(`${method} ${path} failed:`, error);
    }
    return response(reply, method);
  }

  async start(): Promise<void> {
    await this.#load();
  }

  async stop(): Promise<void> {
    try {
      const { stop } = await this.#load();
      for (const hook of stop) await hook(this.#context);
    } finally {
      this.#removeStore();
    }
  }

  #load(): Promise<LoadedHandler> {
    return (this.#loaded ??= (async () => {
      const loaded = await loadHandler(this.#module, 'the module under test');
      for (const hook of loaded.start) await hook(this.#context);
      return loaded;
    })());
  }
}

class TestContext implements Context {
  readonly state: WorkerState;
  readonly worker: WorkerInfo;
  readonly log: Log;
  readonly signal: AbortSignal;
  readonly deadline: Date | null;

  constructor({ state, worker, log }: WorkerContext, init: TestRequest) {
    this.state = state;
    this.worker = worker;
    this.log = log;
    this.signal = init.signal ?? new AbortController().signal;
    this.deadline = init.deadlineMs === undefined ? null : new Date(Date.now() + init.deadlineMs);
  }

  remaining(): number {
    return this.deadline === null ? Infinity : Math.max(0, this.deadline.getTime() - Date.now());
  }
}

/** The payload of the REQUEST frame that the server would send. */
async function payloadOf(method: string, path: string, init: TestRequest, id: string): Promise<Bytes> {
  if (!path.startsWith('/')) throw new TypeError(`the path ${JSON.stringify(path)} must start with /`);
  const { json, params = {}, ip = '127.0.0.1', user, deadlineMs = 0, ...plain } = init;
  const headers = new Headers(plain.headers);
  if (json !== undefined && !headers.has('content-type')) headers.set('content-type', 'application/json');
  const body = json === undefined ? (plain.body ?? null) : JSON.stringify(json);
  // The web's Request computes the bytes and the content type of forms, blobs and streams.
  const web = new Request('http://localhost/', { method: 'POST', body, ...{ duplex: 'half' } });
  const type = web.headers.get('content-type');
  if (type !== null && !headers.has('content-type')) headers.set('content-type', type);
  const bytes = Buffer.from(await web.arrayBuffer());
  if (!headers.has('host')) headers.set('host', 'localhost');
  if (bytes.length > 0) headers.set('content-length', String(bytes.length));
  const [before, query = ''] = path.split(/\?(.*)/s, 2) as [string, string?];
  return requestPayload({
    remainingMs: deadlineMs,
    method,
    path: before,
    query,
    route: '/*',
    params: Object.entries(params).flat(),
    headers: [...headers].flat(),
    peer: ip,
    id: headers.get('x-request-id') ?? id,
    identity: user && JSON.stringify({ kind: 'jwt', scopes: [], claims: {}, ...user }),
    body: bytes,
  });
}

/** Converts a reply to a web Response. */
function response(reply: Reply, method: string): Response {
  const headers = new Headers();
  const type = CONTENT_TYPES[reply.kind];
  if (type !== undefined) headers.set('content-type', type);
  for (let index = 0; index < reply.headers.length; index += 2) {
    headers.append(reply.headers[index]!, reply.headers[index + 1]!);
  }
  const { status, body } = reply;
  const bare = body === null || method === 'HEAD' || [204, 205, 304].includes(status);
  if (bare) return new Response(null, { status, headers });
  if (typeof body === 'string') return new Response(body, { status, headers });
  if (body instanceof Uint8Array) return new Response(new Uint8Array(body), { status, headers });
  return new Response(streamOf(body[Symbol.asyncIterator]()), { status, headers });
}

function streamOf(pieces: AsyncIterator<unknown>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await pieces.next();
      if (done === true) controller.close();
      else controller.enqueue(typeof value === 'string' ? Buffer.from(value) : (value as Uint8Array));
    },
    async cancel() {
      await pieces.return?.();
    },
  });
}
