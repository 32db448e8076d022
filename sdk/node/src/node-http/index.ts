/**
 * Runs what is written for `node:http` in a pool:
 *
 * ```js
 * import { listener } from 'forebay/node-http';
 *
 * export default listener((req, res) => res.end('hello'));
 * ```
 *
 * @module
 */
import type { Handler } from '../handler.js';
import type { WireRequest } from '../request.js';
import { Exchange, type RequestListener } from './exchange.js';
import { intercept } from './intercept.js';

export type { RequestListener } from './exchange.js';

/**
 * Makes a handler of a request listener `(req, res)`, such as an Express application. Both are the objects of `node:http`; the connection to the
 * client is the server's, so `req.socket` only tells about it.
 */
export function listener(listen: RequestListener): Handler {
  intercept();
  return (request, context) => new Exchange(request as WireRequest, context).run(listen);
}
