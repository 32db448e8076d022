/** Converts a Fastify request to a message. */

// The parts of Fastify's types that are used here, so that Fastify need not be installed.

export interface FastifyLike {
  route(options: any): unknown;
  decorate(name: any, value: any): unknown;
  addHook(name: any, hook: any): unknown;
}

export interface FastifyRequestLike {
  readonly method: string;
  readonly query: unknown;
  readonly body: unknown;
  readonly params: unknown;
  readonly headers: unknown;
  readonly ip: string;
  readonly ips?: string[] | undefined;
  readonly hostname: string;
  readonly protocol: string;
  readonly url: string;
  readonly log: { error(fields: object, message: string): void };
}

export interface FastifyReplyLike {
  readonly raw: Closable;
  code(status: number): FastifyReplyLike;
  headers(headers: Readonly<Record<string, unknown>>): FastifyReplyLike;
  send(body?: unknown): FastifyReplyLike;
}

interface Closable {
  readonly destroyed: boolean;
  on(event: 'close', listener: () => void): unknown;
}

/** `message.data` of a handler. Members that the request lacks are left out. */
export interface RequestData {
  method: string;
  query: unknown;
  body?: unknown;
  params: unknown;
  headers: unknown;
  ip: string;
  ips?: string[];
  hostname: string;
  protocol: string;
  url: string;
  /** The pattern of the matched route. */
  routerPath: string;
}

export function requestOf(request: FastifyRequestLike, routerPath: string): RequestData {
  const { method, query, body, params, headers, ip, ips, hostname, protocol, url } = request;
  // Copies are plain objects, unlike Fastify's own; only plain objects can be sent as JSON.
  const data: RequestData = { method, query: { ...(query as object) }, params: { ...(params as object) }, headers, ip, hostname, protocol, url, routerPath };
  if (body !== undefined) data.body = body;
  if (ips !== undefined) data.ips = ips;
  return data;
}
