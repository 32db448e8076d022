/** Recognises applications that are written for `node:http`. */
import type { RequestListener } from './node-http/index.js';

/** An application that is called for each request with the objects of `node:http`. */
export interface NodeApplication {
  readonly listener: RequestListener;
  /** Runs before the first request, and after the last. */
  readonly start?: () => unknown;
  readonly stop?: () => unknown;
}

/** The parameters of a function whose second one is named as in `node:http` and its frameworks. */
const PARAMETERS = /^(?:async\b\s*)?(?:function\b\s*[\w$]*\s*)?\(\s*([\w$]+)\s*,\s*(_?res|_?response|reply)\b/;
/** Members by which a response is written, and which neither a `Context` nor a web `Response` has. */
const WRITES = String.raw`(?:end|write|writeHead|setHeader|send|sendStatus|sendFile|redirect|render|status)\s*\(|json\s*\(\s*[^)\s]|statusCode\b`;

/** The application that a module exports, if it is one of Express, Connect, Koa, Fastify or Polka, a server or a function `(req, res)`. */
export function nodeApplication(value: unknown): NodeApplication | undefined {
  if (typeof value === 'function') {
    const app = value as unknown as Record<string, unknown>;
    const isFramework = has(app, 'handle', 'use') && (has(app, 'set') || Array.isArray(app['stack']));
    return isFramework || writesResponse(value.toString()) ? { listener: value as RequestListener } : undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const app = value as Record<string, unknown>;
  if (has(app, 'fetch')) return undefined;
  if (has(app, 'callback', 'use') && Array.isArray(app['middleware'])) return { listener: (app['callback'] as () => RequestListener)() };
  if (has(app, 'routing', 'ready', 'close')) {
    const fastify = app as { routing: RequestListener; ready(): unknown; close(): unknown };
    return { listener: fastify.routing, start: () => fastify.ready(), stop: () => fastify.close() };
  }
  const polka = app as { handler: RequestListener };
  if (has(app, 'handler', 'listen', 'use')) return { listener: (request, response) => polka.handler(request, response) };
  if (!has(app, 'listen', 'address', 'close', 'emit')) return undefined;
  const server = value as { emit(event: string, ...values: unknown[]): boolean };
  return { listener: (request, response) => server.emit('request', request, response) };
}

function has(value: Readonly<Record<string, unknown>>, ...names: string[]): boolean {
  return names.every((name) => typeof value[name] === 'function');
}

/**
 * Whether the source of a function shows that it writes its response to its second parameter or passes both parameters on. The name alone
 * proves nothing: a handler may call its context as it likes.
 */
function writesResponse(source: string): boolean {
  const parameters = PARAMETERS.exec(source);
  if (parameters === null) return false;
  const [request, response] = parameters.slice(1).map((name) => name.replaceAll('$', String.raw`\$`));
  const use = String.raw`\b${response}\s*\.\s*(?:${WRITES})|\(\s*${request}\s*,\s*${response}\s*[,)]`;
  return new RegExp(use).test(source.slice(parameters[0].length));
}
