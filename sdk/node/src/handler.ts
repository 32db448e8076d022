import type { Context, WorkerContext } from './context.js';
import { declaredOf, readsOf, type DeclaredRead } from './declared-reads.js';
import { foreignApplication } from './frameworks.js';
import type { Answer } from './reply.js';
import type { HttpRequest } from './request.js';
import { Router } from './router.js';

/** Answers a request. {@link Answer} lists what it may return; throw an `HttpError` to answer with its status. */
export type Handler = (request: HttpRequest, ctx: Context) => Answer;

/** Runs once in each worker process: before its first request, or after its last. May be asynchronous. */
export type Hook = (ctx: WorkerContext) => unknown;

/** The web-standard form of a handler: `export default { fetch(request) { return new Response('hello'); } }`. */
export interface FetchHandler {
  fetch(request: Request, ctx: Context): Response | Promise<Response>;
}

/** A handler that accepts the concatenated method and path as a third argument, if the caller has it already. */
export type RoutedHandler = (request: HttpRequest, ctx: Context, methodAndPath?: string) => Answer;

/** A loaded handler module. */
export interface LoadedHandler {
  handle: RoutedHandler;
  /** Whether it is the SDK's own router, which takes the third argument. */
  isRouter: boolean;
  /** The reads that the server may answer without calling the handler. */
  reads: DeclaredRead[];
  start: Hook[];
  stop: Hook[];
}

/**
 * Finds the handler in a module: its default export, or else one named `handler`, that is a router, a function, or an
 * object with `fetch`. A CommonJS module's `module.exports` counts as both.
 * @throws TypeError if there is none, or if it is an application for another server.
 */
export async function loadHandler(module: object, file: string): Promise<LoadedHandler> {
  const exports = module as Record<string, unknown>;
  const fallback = exports['default'];
  const common = isObject(fallback) && !(fallback instanceof Router) ? fallback : {};
  const candidates = [fallback, common['default'], exports['handler'], common['handler']];
  const loaded: LoadedHandler = { handle: () => null, isRouter: false, reads: [], start: [], stop: [] };
  // An application of a framework may have a method `onStart` of its own.
  const hooks = Object.getPrototypeOf(common) === Object.prototype ? common : {};
  for (const [list, name] of [[loaded.start, 'onStart'], [loaded.stop, 'onStop']] as const) {
    const hook = exports[name] ?? hooks[name];
    if (typeof hook === 'function') list.push(hook as Hook);
  }
  for (const candidate of candidates) {
    if (candidate instanceof Router) {
      loaded.start.push(...candidate.startHooks);
      loaded.stop.unshift(...candidate.stopHooks);
      return { ...loaded, handle: candidate.compile(), isRouter: true, reads: candidate.declaredReads() };
    }
    const foreign = foreignApplication(candidate);
    if (foreign !== undefined) {
      throw new TypeError(
        `${file} exports ${foreign}, which cannot be a handler: a handler gets a request and returns the response. Move its routes ` +
          'to a router() of `forebay`, or export a function (request, ctx) or an object with fetch(request, ctx): ' +
          'see "From Express, Koa and Fastify" in docs/guide/pools.md',
      );
    }
    if (typeof candidate === 'function') {
      // A function may have its own `onStop`, such as that of a router with a different interface.
      const { onStop } = candidate as { onStop?: unknown };
      if (typeof onStop === 'function' && loaded.stop.length === 0) loaded.stop.push(onStop as Hook);
      const declared = declaredOf(candidate);
      return { ...loaded, handle: candidate as Handler, reads: declared === undefined ? [] : readsOf(declared) };
    }
    if (isObject(candidate) && typeof candidate['fetch'] === 'function') {
      const { bridgeFetch } = await import('./fetch.js');
      return { ...loaded, handle: bridgeFetch(candidate as unknown as FetchHandler) };
    }
  }
  const found = Object.keys(exports).map((name) => `${name} (${typeof exports[name]})`);
  throw new TypeError(
    `${file} exports no handler: expected \`export default\` of a router(), a function (request, ctx) or an object with ` +
      `fetch(request, ctx), or a function named handler; found ${found.length === 0 ? 'no exports' : found.join(', ')}`,
  );
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}
