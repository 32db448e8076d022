/**
 * A Fastify plugin that lets workers answer requests, with the interface of qoper8-fastify.
 *
 * ```js
 * import Fastify from 'fastify';
 * import QOper8 from 'forebay/qoper8/fastify';
 *
 * const fastify = Fastify();
 * fastify.register(QOper8, { poolSize: 2, workerHandlersByRoute: [{ method: 'get', url: '/users/:id', handlerPath: 'handlers/getUser.mjs' }] });
 * await fastify.listen({ port: 3000 });
 * ```
 *
 * @module
 */
import { causeOf } from './failures.js';
import { requestOf, type FastifyLike, type FastifyReplyLike, type FastifyRequestLike } from './http.js';
import { QOper8 } from './qoper8.js';
import type { QOper8Options } from './options.js';
import { Answer, answerOf } from './statuses.js';

/** A route that is answered by workers. */
export interface WorkerRoute {
  /** `get`, `POST`, or an array of methods. */
  method: string | readonly string[];
  /** A Fastify pattern: `/users/:id`, `/files/*`. */
  url: string;
  /** The handler's file, relative to the current directory. */
  handlerPath: string;
  /** Milliseconds that the handler may run; overrides `handlerTimeout`. Not in qoper8-fastify. */
  timeout?: number;
  /** Other Fastify options of the route: `schema`, `preHandler`, `bodyLimit` and so on. Not in qoper8-fastify. */
  options?: Readonly<Record<string, unknown>>;
}

export interface QOper8FastifyOptions extends QOper8Options {
  /** The kind of worker: `worker_thread` (the default) or `child_process`. */
  mode?: 'worker_thread' | 'child_process';
  workerHandlersByRoute?: readonly WorkerRoute[];
}

const GONE = new Error('the client has gone');

/** Registers the routes and decorates Fastify with `qoper8`, which is stopped when Fastify is closed. */
async function plugin(fastify: FastifyLike, options: QOper8FastifyOptions): Promise<void> {
  const { mode = 'worker_thread', workerHandlersByRoute = [], kind, ...rest } = options;
  if (mode !== 'worker_thread' && mode !== 'child_process') throw new TypeError(`mode is 'worker_thread' or 'child_process', not ${JSON.stringify(mode)}`);
  const qoper8 = new QOper8({ ...rest, kind: kind ?? (mode === 'child_process' ? 'process' : 'thread') });
  for (const route of workerHandlersByRoute) addRoute(fastify, qoper8, route);
  fastify.decorate('qoper8', qoper8);
  fastify.addHook('onClose', () => qoper8.stop());
}

function addRoute(fastify: FastifyLike, qoper8: QOper8, { method, url, handlerPath, timeout, options }: WorkerRoute): void {
  const methods = (typeof method === 'string' ? [method] : [...method]).map((name) => name.toUpperCase());
  if (typeof url !== 'string' || typeof handlerPath !== 'string') {
    throw new TypeError('workerHandlersByRoute has objects with method, url and handlerPath');
  }
  // Method and path together: the same path may have other methods with other handlers.
  const type = `${methods.join(',')} ${url}`;
  qoper8.handlersByMessageType.set(type, { module: handlerPath });
  fastify.route({
    ...options,
    method: methods,
    url,
    handler(request: FastifyRequestLike, reply: FastifyReplyLike) {
      const message = { type, data: requestOf(request, url) };
      const delivery = qoper8.deliver(message, (response: unknown) => answer(request, reply, response), timeout);
      if (delivery === null) return;
      // A connection that closes after the response must not abort anything.
      if (reply.raw.destroyed) qoper8.abort(delivery, GONE);
      else reply.raw.on('close', () => qoper8.abort(delivery, GONE));
    },
  });
}

function answer(request: FastifyRequestLike, reply: FastifyReplyLike, response: unknown): void {
  // The client is gone; there is no one to answer.
  if (reply.raw.destroyed) return;
  const cause = causeOf(response);
  let found: Answer;
  if (cause === undefined) {
    found = answerOf(response);
  } else {
    found = Answer.failed(cause);
    if (found.status >= 500) request.log.error({ err: cause }, cause.message);
  }
  try {
    if (found.status !== 200) reply.code(found.status);
    if (found.headers !== null) reply.headers(found.headers);
    // Text is sent as text, objects as JSON.
    reply.send(found.body);
  } catch (error) {
    request.log.error({ err: error }, 'the reply of a worker cannot be sent');
    reply.code(500).send({ error: 'the handler gave a reply that cannot be sent' });
  }
}

// Like fastify-plugin: makes the decorator visible to the whole server.
export default Object.assign(plugin, {
  [Symbol.for('skip-override')]: true,
  [Symbol.for('fastify.display-name')]: 'qoper8',
});
