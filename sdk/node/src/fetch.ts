/** Calls web-standard handlers: applications of Hono, Elysia and h3, and `fetch` functions. */
import type { Context, Log, WorkerInfo, WorkerState } from './context.js';
import type { FetchHandler, Handler, Hook } from './handler.js';
import { bunUpgrade, type BunUpgradeOptions, type BunWebSocketHandlers } from './node-http/bun-websocket.js';
import type { User, WireRequest } from './request.js';
import { webRequest } from './web.js';
import type { WebSocketUpgrade } from './websocket.js';

/** Work that handlers have passed to `waitUntil` and that is not done. */
const pending = new Set<Promise<unknown>>();

/** Waits for the work of `waitUntil`, before the worker ends. */
export const finishPending: Hook = () => Promise.allSettled(pending);

/**
 * The second argument of a `fetch` handler: the context of the job, and what adapters of other servers look for. Hono reads it as its
 * bindings (`c.env`) and as its execution context.
 */
export class FetchContext implements Context {
  readonly #request: WireRequest;
  readonly #context: Context;
  readonly #websocket: BunWebSocketHandlers | undefined;
  /** The WebSocket that {@link FetchContext.upgrade} has accepted. @internal */
  upgraded: WebSocketUpgrade | null = null;

  /** @internal */
  constructor(request: WireRequest, context: Context, websocket?: BunWebSocketHandlers) {
    this.#request = request;
    this.#context = context;
    this.#websocket = websocket;
  }

  get state(): WorkerState {
    return this.#context.state;
  }

  get worker(): WorkerInfo {
    return this.#context.worker;
  }

  get log(): Log {
    return this.#context.log;
  }

  get signal(): AbortSignal {
    return this.#context.signal;
  }

  get deadline(): Date | null {
    return this.#context.deadline;
  }

  remaining(): number {
    return this.#context.remaining();
  }

  /** The authenticated client; null where the route in `forebay.toml` does not ask for that (`auth`). */
  get user(): User | null {
    return this.#request.user;
  }

  /** The client's address as `Server` of Bun tells it, and `getConnInfo` of `hono/bun` reads it; null if it came over a Unix socket. */
  requestIP(): { address: string; family: 'IPv4' | 'IPv6'; port: number } | null {
    const { ip } = this.#request;
    return ip === '' ? null : { address: ip, family: ip.includes(':') ? 'IPv6' : 'IPv4', port: 0 };
  }

  /** The client's address where `getConnInfo` of `@hono/node-server` reads it. */
  get incoming(): object {
    const peer = this.requestIP();
    return { socket: { remoteAddress: peer?.address, remoteFamily: peer?.family } };
  }

  /**
   * Accepts a WebSocket, as `upgrade` of a server of Bun: whatever the handler then returns is not sent. False if the request asks for none.
   * @throws TypeError if the application has no `websocket`.
   */
  upgrade(_: Request, options: BunUpgradeOptions = {}): boolean {
    if (this.#websocket === undefined) throw new TypeError('upgrade() needs `websocket`: an object of functions beside `fetch`');
    if (this.#request.field('upgrade')?.toLowerCase() !== 'websocket') return false;
    this.upgraded = bunUpgrade(this.#websocket, options);
    return true;
  }

  /** Work that goes on after the response: the worker finishes it before it ends. An error of it is logged. */
  waitUntil(work: Promise<unknown>): void {
    const { log } = this;
    const settled = Promise.resolve(work).catch((error: unknown) => log.error(`work after a response failed: ${String(error)}`));
    pending.add(settled);
    void settled.finally(() => pending.delete(settled));
  }

  /** For handlers that know Cloudflare's execution context: an error is answered with 500 in any case. */
  passThroughOnException(): void {}

  get props(): object {
    return {};
  }
}

/** Adapts a web-standard handler: builds the `Request` and returns the `Response` of `fetch`. */
export function bridgeFetch(handler: FetchHandler): Handler {
  return (request, ctx) => {
    const wire = request as WireRequest;
    const { websocket } = handler;
    const context = new FetchContext(wire, ctx, websocket);
    const response = handler.fetch(webRequest(wire, ctx), context, context);
    return websocket === undefined ? response : Promise.resolve(response).then((value) => context.upgraded ?? value);
  };
}
