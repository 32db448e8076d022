/** The server's pools, whose workers answer rules as they answer requests: without a connection, and within the run's time. */
import { Request, Response, type RequestInit } from '../../script/web/messages.js';
import { URL } from '../../script/web/url.js';
import { text } from '../tools/arguments.js';
import { ask } from './clients.js';

const ORIGIN = 'http://pool';
/** Statuses whose responses have no body. */
const BODILESS = [204, 205, 304];

interface Answered {
  readonly status: number;
  readonly headers: readonly [string, string][];
  readonly body: string;
}

/** A pool by the NAME of its `[pool.NAME]`. */
export class WorkerPool {
  readonly name: string;

  constructor(name: string) {
    this.name = name;
  }

  /** Has a worker answer a request for this path, as `fetch` has a server do it. Bodies are text, both ways; `signal` and `redirect` are not looked at. */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const url = new URL(path, ORIGIN);
    if (!text(path, 'path').startsWith('/') || url.origin !== ORIGIN) throw new TypeError(`\`path\` begins with one \`/\`, and this one is ${JSON.stringify(path)}`);
    const request = new Request(url.href, init);
    const { method } = request;
    const { status, headers, body } = await ask<Answered>({
      op: 'pool',
      pool: this.name,
      request: { method, path: url.pathname, query: url.search.slice(1), headers: [...request.headers], body: await request.text() },
    });
    const isEmpty = method === 'HEAD' || BODILESS.includes(status);
    return new Response(isEmpty ? null : body, { status, headers: headers.map(([name, value]) => [name, value]) });
  }
}

/** Each is there; to ask one that `allow` does not name says so. */
export const pools: Readonly<Record<string, WorkerPool>> = new Proxy(Object.create(null) as Record<string, WorkerPool>, {
  get: (_, name) => (typeof name === 'string' ? new WorkerPool(name) : undefined),
});
