/** The server's pools, whose workers answer rules as they answer requests: without a connection, and within the run's deadline. */
import { Request, Response, type RequestInit } from '../../script/web/messages.js';
import { URL } from '../../script/web/url.js';
import { text } from '../tools/arguments.js';
import { ask } from './clients.js';

const ORIGIN = 'http://pool';
/** Statuses whose responses have no body. */
const BODILESS = [204, 205, 304];

interface PoolResponse {
  readonly status: number;
  readonly headers: readonly [string, string][];
  readonly body: string;
}

/** The pool of `[pool.NAME]`. */
export class WorkerPool {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  /**
   * Sends a request for this path to a worker, as `fetch` would to a server. Bodies are text in both directions; `signal` and `redirect`
   * are ignored.
   */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const url = new URL(path, ORIGIN);
    if (!text(path, 'path').startsWith('/') || url.origin !== ORIGIN) throw new TypeError(`\`path\` begins with one \`/\`, and this one is ${JSON.stringify(path)}`);
    const request = new Request(url.href, init);
    const { method } = request;
    const { status, headers, body } = await ask<PoolResponse>({
      op: 'pool',
      pool: this.name,
      request: { method, path: url.pathname, query: url.search.slice(1), headers: [...request.headers], body: await request.text() },
    });
    const isEmpty = method === 'HEAD' || BODILESS.includes(status);
    return new Response(isEmpty ? null : body, { status, headers: headers.map(([name, value]) => [name, value]) });
  }
}

/** Any name yields a pool; a request to one that `allow` does not name fails with an error that says so. */
export const pools: Readonly<Record<string, WorkerPool>> = new Proxy(Object.create(null) as Record<string, WorkerPool>, {
  get: (_, name) => (typeof name === 'string' ? new WorkerPool(name) : undefined),
});
