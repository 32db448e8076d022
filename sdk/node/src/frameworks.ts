/** Recognises exports that are written for another server, so that a worker says so when it starts instead of failing each request. */

/** The parameters of a function whose second one is named as in `node:http` and its frameworks. */
const PARAMETERS = /^(?:async\b\s*)?(?:function\b\s*[\w$]*\s*)?\(\s*([\w$]+)\s*,\s*(_?res|_?response|reply)\b/;
/** Members by which a response is written, and which neither a `Context` nor a web `Response` has. */
const WRITES = String.raw`(?:end|write|writeHead|setHeader|send|sendStatus|sendFile|redirect|render|status)\s*\(|json\s*\(\s*[^)\s]|statusCode\b`;

/** Names the kind of an export that is written for another server and cannot be a handler; undefined for any other export. */
export function foreignApplication(value: unknown): string | undefined {
  if (typeof value === 'function') {
    const app = value as unknown as Record<string, unknown>;
    if (has(app, 'handle', 'use') && (has(app, 'set') || Array.isArray(app['stack']))) return 'an Express or Connect application';
    return writesResponse(value.toString()) ? 'a function (req, res) of `node:http`' : undefined;
  }
  if (typeof value !== 'object' || value === null) return undefined;
  const app = value as Record<string, unknown>;
  if (has(app, 'fetch')) return undefined;
  if (has(app, 'callback', 'use') && Array.isArray(app['middleware'])) return 'a Koa application';
  if (has(app, 'inject', 'listen', 'ready')) return 'a Fastify application';
  return has(app, 'listen', 'address', 'close') ? 'a server of `node:http`' : undefined;
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
