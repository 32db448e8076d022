/** The server with which the application of this worker listens. Light, because every worker loads it: `server.ts` and `bun-server.ts` call `listen`. */
import type { Handler, Listening } from '../handler.js';

/** How long an application may take to listen after its module has been loaded. */
const LISTEN_MAX_MS = 10_000;
/** How long what it does at SIGTERM may take. */
const TERMINATE_MAX_MS = 3_000;
const POLL_MS = 20;

/** The first server on which it has called `listen`; a process has one. */
let served: { readonly port: number | string; readonly handler: () => Promise<Handler> } | null = null;
let wake: (() => void) | null = null;

/** Makes what `handler` gives the handler of this application. @throws Error if it listens at another port already. */
export function listen(port: number | string, handler: () => Promise<Handler>): void {
  if (served !== null) {
    // A host name may have several addresses; Fastify has a server for each of them.
    if (served.port === port) return;
    throw new Error(
      `the application listens twice, at ${served.port} and at ${port}, and Forebay serves one application per pool: move the second one to ` +
        'a file of its own, with a pool and a route of its own',
    );
  }
  served = { port, handler };
  wake?.();
}

/** Call before the application is loaded. */
export function awaitListening(): Listening {
  const resources = process.getActiveResourcesInfo().length;
  const own = process.listeners('SIGTERM');
  return {
    handler: () => served?.handler() ?? null,
    async wait() {
      if (served === null) await idle(resources, LISTEN_MAX_MS);
      return served?.handler() ?? null;
    },
    async stop() {
      const added = process.listeners('SIGTERM').filter((listener) => !own.includes(listener));
      if (added.length === 0) return;
      await Promise.all(added.map((listener) => (listener as (...signal: unknown[]) => unknown)('SIGTERM', 15)));
      await idle(resources, TERMINATE_MAX_MS);
    },
  };
}

/** Resolves when the application listens, when nothing of it is under way any more that would keep its process, or when it is too late. */
function idle(resources: number, milliseconds: number): Promise<void> {
  const until = performance.now() + milliseconds;
  return new Promise((resolve) => {
    const end = () => {
      clearInterval(timer);
      resolve();
    };
    const timer = setInterval(() => {
      // Bun does not tell what is under way.
      const isIdle = process.versions['bun'] === undefined && process.getActiveResourcesInfo().length <= resources;
      if (isIdle || performance.now() > until) end();
    }, POLL_MS);
    timer.unref();
    wake = end;
  });
}
