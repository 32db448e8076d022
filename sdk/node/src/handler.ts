import type { Context, WorkerContext } from './context.js';
import type { BunWebSocketHandlers } from './node-http/bun-websocket.js';
import type { FetchContext } from './fetch.js';
import { declaredOf, readsOf, type DeclaredRead } from './declared-reads.js';
import { nodeApplication } from './frameworks.js';
import type { Answer } from './reply.js';
import type { HttpRequest } from './request.js';
import { Router } from './router.js';

/** Answers a request. {@link Answer} lists what it may return; throw an `HttpError` to answer with its status. */
export type Handler = (request: HttpRequest, ctx: Context) => Answer;

/** Runs once in each worker process: before its first request, or after its last. May be asynchronous. */
export type Hook = (ctx: WorkerContext) => unknown;

/** The web-standard form of a handler: `export default { fetch(request) { return new Response('hello'); } }`. */
export interface FetchHandler {
  fetch(request: Request, ctx: FetchContext, executionCtx: FetchContext): Response | Promise<Response>;
  /** Handlers of WebSockets that `ctx.upgrade(request)` has accepted, as for `Bun.serve`. */
  readonly websocket?: BunWebSocketHandlers;
}

/** A handler that accepts the concatenated method and path as a third argument, if the caller has it already. */
export type RoutedHandler = (request: HttpRequest, ctx: Context, methodAndPath?: string) => Answer;

/** A loaded handler module. */
export interface LoadedHandler {
  handle: RoutedHandler;
  /** Whether it is the SDK's own router, which takes the third argument. */
  isRouter: boolean;
  /** Whether it waits instead of blocking, as applications do, so that a worker may run many requests at a time. */
  waits: boolean;
  /** The reads that the server may answer without calling the handler. */
  reads: DeclaredRead[];
  start: Hook[];
  stop: Hook[];
}

/** Where an application ends up that calls `listen`; see `node-http/listening.ts`. */
export interface Listening {
  /** Its handler; null while it does not listen. */
  handler(): Promise<Handler> | null;
  /** Waits for it to listen; null if it does not in time. */
  wait(): Promise<Handler | null>;
  /** Does what the application has registered for SIGTERM. */
  stop(): Promise<void>;
}

/**
 * Finds the handler in a module: what it listens with, or its default export, or else one named `handler`, that is a router, a function, an
 * object with `fetch`, or an application of `node:http`. A CommonJS module's `module.exports` counts as both.
 * @throws TypeError if there is none.
 */
export async function loadHandler(module: object, file: string, listening?: Listening): Promise<LoadedHandler> {
  const exports = module as Record<string, unknown>;
  const fallback = exports['default'];
  const common = isObject(fallback) && !(fallback instanceof Router) ? fallback : {};
  const candidates = [fallback, common['default'], exports['handler'], common['handler']];
  const loaded: LoadedHandler = { handle: () => null, isRouter: false, waits: false, reads: [], start: [], stop: [] };
  // An application of a framework may have a method `onStart` of its own.
  const hooks = Object.getPrototypeOf(common) === Object.prototype ? common : {};
  for (const [list, name] of [[loaded.start, 'onStart'], [loaded.stop, 'onStop']] as const) {
    const hook = exports[name] ?? hooks[name];
    if (typeof hook === 'function') list.push(hook as Hook);
  }
  const hasStop = loaded.stop.length > 0;
  if (listening !== undefined) loaded.stop.push(() => listening.stop());
  const listener = listening?.handler() ?? null;
  if (listener !== null) return { ...loaded, handle: await listener, waits: true };
  for (const candidate of candidates) {
    if (candidate instanceof Router) {
      loaded.start.push(...candidate.startHooks);
      loaded.stop.unshift(...candidate.stopHooks);
      return { ...loaded, handle: candidate.compile(), isRouter: true, reads: candidate.declaredReads() };
    }
    const application = nodeApplication(candidate);
    if (application !== undefined) {
      const { listener } = await import('./node-http/index.js');
      if (application.start !== undefined) loaded.start.push(application.start);
      if (application.stop !== undefined) loaded.stop.unshift(application.stop);
      return { ...loaded, handle: listener(application.listener), waits: true };
    }
    if (typeof candidate === 'function') {
      // A function may have its own `onStop`, such as that of a router with a different interface.
      const { onStop } = candidate as { onStop?: unknown };
      if (typeof onStop === 'function' && !hasStop) loaded.stop.unshift(onStop as Hook);
      const declared = declaredOf(candidate);
      return { ...loaded, handle: candidate as Handler, reads: declared === undefined ? [] : readsOf(declared) };
    }
    if (isObject(candidate) && typeof candidate['fetch'] === 'function') {
      const { bridgeFetch, finishPending } = await import('./fetch.js');
      loaded.stop.unshift(finishPending);
      return { ...loaded, handle: bridgeFetch(candidate as unknown as FetchHandler), waits: true };
    }
  }
  // The application may listen once it has connected to its database. One that exports something else is mistaken about that.
  const mayListen = fallback === undefined || (hooks === common && Object.keys(common).length === 0);
  const late = listening !== undefined && mayListen ? await listening.wait() : null;
  if (late !== null) return { ...loaded, handle: late, waits: true };
  const found = Object.keys(exports).map((name) => `${name} (${typeof exports[name]})`);
  throw new TypeError(
    `${file} exports no handler${listening === undefined ? '' : ' and does not listen'}: expected \`export default\` of a router(), a function ` +
      '(request, ctx), an object with fetch(request, ctx) or an application of Express, Fastify, Koa, Hono, ..., or a call of listen(); ' +
      `found ${found.length === 0 ? 'no exports' : found.join(', ')}`,
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
