/**
 * Runs a handler on standard input and output, in a program that a pool starts with `command`:
 *
 * ```js
 * import { serve } from 'forebay/stdio';
 * import * as api from './api.mjs';
 *
 * serve(api);
 * ```
 *
 * The pool's `protocol` selects the format: `"jsonl"`, `"wabur"`, or `"framed"` with `link = "stdio"`. Handler and responses are the same
 * as in any other pool. From then on, standard output belongs to the server: whatever handlers print goes to standard error.
 *
 * @module
 */
import { loadHandler, type FetchHandler, type Handler, type LoadedHandler } from '../handler.js';
import { Router } from '../router.js';
import { run } from './run.js';

export { callTql, type TqlResult } from './call.js';

/** Serves a handler: a handler module (`import * as module`), a router, a function, or an object with fetch. Call it once per process. */
export function serve(handler: object | Handler | Router | FetchHandler): void {
  const bare = handler instanceof Router || typeof handler === 'function' || 'fetch' in handler;
  const module = bare ? { default: handler } : handler;
  run(Promise.resolve(), (): Promise<LoadedHandler> => loadHandler(module, 'the handler given to serve()'));
}
