/** Stands in for the server of `Bun.serve`: its `fetch` and `routes` answer the requests of the pool. */
import type { Context } from '../context.js';
import { FetchContext } from '../fetch.js';
import type { Handler } from '../handler.js';
import type { WireRequest } from '../request.js';
import { webRequest } from '../web.js';
import { bunPublish, type BunUpgradeOptions, type BunWebSocketHandlers } from './bun-websocket.js';
import { listen } from './listening.js';

type Fetch = (this: BunServer, request: Request, server: BunServer) => unknown;
/** A response, a file, or a function. */
type Answer = Response | Blob | Fetch | false;
type Route = Answer | Readonly<Record<string, Answer>>;

/** The options of `Bun.serve` that are used here. */
interface ServeOptions {
  readonly fetch?: Fetch;
  readonly routes?: Readonly<Record<string, Route>>;
  readonly error?: (this: BunServer, error: Error) => unknown;
  readonly port?: number | string;
  readonly hostname?: string;
  readonly unix?: string;
  readonly tls?: unknown;
  readonly websocket?: BunWebSocketHandlers;
  readonly development?: unknown;
}

/** The path of a route, as a pattern whose groups are the parameters. */
interface Pattern {
  readonly pattern: RegExp;
  readonly route: Route;
}

declare const Bun: { serve: unknown; CookieMap: new (text: string) => { toSetCookieHeaders(): string[] } };

/** From now on `Bun.serve` opens no socket. */
export function standInForBun(): void {
  Bun.serve = (options: ServeOptions) => new BunServer(options);
}

class BunServer {
  readonly port: number | undefined;
  readonly hostname: string;
  readonly id = '';
  readonly pendingWebSockets = 0;
  readonly development: boolean;
  readonly protocol: string | null;
  pendingRequests = 0;
  readonly #requests = new WeakMap<Request, FetchContext>();
  #fetch: Fetch | undefined;
  #error: ServeOptions['error'];
  #websocket: BunWebSocketHandlers | undefined;
  #routes: ReadonlyMap<string, Route> = new Map();
  #patterns: readonly Pattern[] = [];
  #isStopped = false;

  constructor(options: ServeOptions) {
    const { unix, port = process.env['BUN_PORT'] ?? process.env['PORT'] ?? 3000, hostname = 'localhost' } = options;
    this.port = unix === undefined ? Number(port) : undefined;
    this.hostname = hostname;
    this.development = options.development === true;
    this.protocol = unix === undefined ? 'http' : null;
    this.reload(options);
    listen(unix ?? Number(port), async () => this.#handler());
  }

  get url(): URL {
    return new URL(`http://${this.hostname}:${this.port ?? 0}/`);
  }

  get address(): object | null {
    return this.port === undefined ? null : { address: this.hostname, family: 'IPv4', port: this.port };
  }

  /** Replaces what answers requests. */
  reload({ fetch, routes = {}, error, websocket }: ServeOptions): this {
    if (fetch === undefined && Object.keys(routes).length === 0) throw new TypeError('Bun.serve() needs `fetch` or `routes`');
    this.#fetch = fetch;
    this.#error = error;
    this.#websocket = websocket;
    const exact = Object.entries(routes).filter(([path]) => !/[:*]/.test(path));
    const patterns = Object.entries(routes).filter(([path]) => /[:*]/.test(path));
    // A literal segment goes before a parameter, and a parameter before a wildcard: in this order of characters.
    const rank = (path: string) => path.replaceAll(/\/:[^/]*/g, '/\u{fffe}').replaceAll('*', '\u{ffff}');
    patterns.sort(([a], [b]) => (rank(a) < rank(b) ? -1 : 1));
    this.#routes = new Map(exact);
    this.#patterns = patterns.map(([path, route]) => ({ pattern: patternOf(path), route }));
    return this;
  }

  /** Requests are answered with 503 from now on. */
  async stop(): Promise<void> {
    this.#isStopped = true;
  }

  /** Answers a request of the application itself. */
  async fetch(request: Request | string): Promise<unknown> {
    return this.#answer(typeof request === 'string' ? new Request(new URL(request, this.url)) : request);
  }

  requestIP(request: Request): ReturnType<FetchContext['requestIP']> {
    return this.#requests.get(request)?.requestIP() ?? null;
  }

  /** Accepts a WebSocket; false if the request asks for none. */
  upgrade(request: Request, options: BunUpgradeOptions = {}): boolean {
    return this.#requests.get(request)?.upgrade(request, options) ?? false;
  }

  publish(topic: string, message: string | ArrayBuffer | ArrayBufferView): number {
    return bunPublish(topic, message);
  }

  subscriberCount(): number {
    return 0;
  }

  timeout(): void {}

  ref(): void {}

  unref(): void {}

  [Symbol.dispose](): void {
    void this.stop();
  }

  #handler(): Handler {
    return async (request, context: Context) => {
      if (this.#isStopped) return new Response('the application has stopped its server', { status: 503 });
      const wire = request as WireRequest;
      const web = webRequest(wire, context);
      const own = new FetchContext(wire, context, this.#websocket);
      this.#requests.set(web, own);
      this.pendingRequests++;
      try {
        const answer = await this.#answer(web);
        return own.upgraded ?? answer;
      } catch (error) {
        if (this.#error === undefined) throw error;
        return await this.#error.call(this, error as Error);
      } finally {
        this.pendingRequests--;
      }
    };
  }

  async #answer(request: Request): Promise<unknown> {
    const found = this.#routes.size + this.#patterns.length === 0 ? undefined : this.#route(request);
    if (found instanceof Response) return found.clone();
    if (found instanceof Blob) return new Response(found);
    const answer = typeof found === 'function' ? found : this.#fetch;
    if (answer === undefined) return new Response('Not Found', { status: 404 });
    const response = await answer.call(this, request, this);
    const { cookies } = request as { cookies?: { toSetCookieHeaders(): string[] } };
    if (response instanceof Response && cookies !== undefined) {
      for (const cookie of cookies.toSetCookieHeaders()) response.headers.append('set-cookie', cookie);
    }
    return response;
  }

  /** The route of a request, which gets its parameters and cookies. */
  #route(request: Request): Answer | undefined {
    const { pathname } = new URL(request.url);
    let route = this.#routes.get(pathname);
    let params: Record<string, string> = {};
    if (route === undefined) {
      for (const { pattern, route: candidate } of this.#patterns) {
        const match = pattern.exec(pathname);
        if (match === null) continue;
        route = candidate;
        params = Object.fromEntries(Object.entries(match.groups ?? {}).map(([name, value]) => [name, decodeURIComponent(value)]));
        break;
      }
    }
    if (route === undefined || route === false) return undefined;
    Object.defineProperties(request, {
      params: { value: params },
      cookies: { value: new Bun.CookieMap(request.headers.get('cookie') ?? '') },
    });
    if (typeof route === 'function' || route instanceof Response || route instanceof Blob) return route;
    return route[request.method] ?? (request.method === 'HEAD' ? route['GET'] : undefined);
  }
}

function patternOf(path: string): RegExp {
  const segments = path.split('/').map((segment) => {
    if (segment === '*') return '.*';
    if (segment.startsWith(':')) return `(?<${segment.slice(1)}>[^/]+)`;
    return segment.replaceAll(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`);
  });
  return new RegExp(`^${segments.join('/')}$`);
}
