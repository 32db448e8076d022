/** The handler of a server that an application listens with. */
import type { Server } from 'node:http';
import type { Handler } from '../handler.js';
import { HttpError } from '../reply.js';
import type { WireRequest } from '../request.js';
import { Exchange } from './exchange.js';
import { intercept } from './intercept.js';
import { begin, end } from './server.js';
import { UpgradeSocket } from './upgrade.js';

/** Emits each request as the event that the server would have emitted. */
export function serverHandler(server: Server): Handler {
  intercept();
  const listener = (request: unknown, response: unknown) => void server.emit('request', request, response);
  return (request, context) => {
    if (!begin(server)) throw new HttpError(503, 'the application has closed its server');
    const wire = request as WireRequest;
    // As in Node, an upgrade without a listener is a plain request.
    if (server.listenerCount('upgrade') === 0 || wire.field('upgrade') === null) return new Exchange(wire, context, end).run(listener);
    // Connections that were taken over do not keep a server from closing.
    end();
    const exchange = new Exchange(wire, context, () => {});
    const socket = new UpgradeSocket(wire, exchange.connection);
    server.emit('upgrade', exchange.request, socket, Buffer.alloc(0));
    return socket.outcome;
  };
}
