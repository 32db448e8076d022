/** The web's form of a request in scripts, whose own web APIs are cheap. Replaces `../web.ts`. */
import type { Context } from '../context.js';
import type { WireRequest } from '../request.js';

export function webRequest(request: WireRequest, context: Context): Request {
  const init: RequestInit & { duplex?: 'half' } = { method: request.method, headers: [...request.headers], signal: context.signal };
  if (request.hasBody && request.method !== 'GET' && request.method !== 'HEAD') {
    init.body = request.stream();
    init.duplex = 'half';
  }
  return new Request(request.url, init);
}
