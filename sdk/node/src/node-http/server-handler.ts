/** The handler of a server that an application listens with. */
import type { Server } from 'node:http';
import type { Handler } from '../handler.js';
import { HttpError } from '../reply.js';
import type { WireRequest } from '../request.js';
import { Exchange } from './exchange.js';
import { intercept } from './intercept.js';
import { begin, end } from './server.js';

/** Emits each request as the event that the server would have emitted. */
export function serverHandler(server: Server): Handler {
  intercept();
  const listener = (request: unknown, response: unknown) => void server.emit('request', request, response);
  return (request, context) => {
    if (!begin(server)) throw new HttpError(503, 'the application has closed its server');
    return new Exchange(request as WireRequest, context, end).run(listener);
  };
}
