import type { FetchHandler, Handler } from './handler.js';
import type { WireRequest } from './request.js';

/** Adapts a web-standard handler: builds the `Request` and returns the `Response` of `fetch`. */
export function bridgeFetch(handler: FetchHandler): Handler {
  return (request, ctx) => {
    const wire = request as WireRequest;
    const init: RequestInit & { duplex?: 'half' } = {
      method: wire.method,
      headers: [...wire.headers],
      signal: ctx.signal,
    };
    if (wire.hasBody && wire.method !== 'GET' && wire.method !== 'HEAD') {
      init.body = wire.stream();
      init.duplex = 'half';
    }
    return handler.fetch(new Request(wire.url, init), ctx);
  };
}
