/** Leads what `node:http` would write to a socket or read from one to the exchange, for requests and responses that have one. */
import { IncomingMessage, ServerResponse } from 'node:http';
import { EXCHANGE, type Exchange } from './exchange.js';

type Method = (this: unknown, ...args: any[]) => unknown;

let isDone = false;

/** Replaces methods of the two classes; objects of other servers and clients in this process keep their behaviour. */
export function intercept(): void {
  if (isDone) return;
  isDone = true;
  const response = ServerResponse.prototype;
  replace(response, '_storeHeader', (exchange, _, fields) => exchange.storeHead(fields));
  replace(response, '_send', (exchange, data, encoding, callback) =>
    typeof encoding === 'function' ? exchange.send(data, null, encoding as never) : exchange.send(data, encoding, callback),
  );
  replace(response, 'addTrailers', (exchange, fields) => exchange.addTrailers(fields));
  // Informational responses: the server sends those that HTTP requires.
  replace(response, '_writeRaw', (_, __, encoding, callback) => {
    const done = typeof encoding === 'function' ? encoding : callback;
    if (typeof done === 'function') process.nextTick(done);
    return true;
  });
  const { end } = response as unknown as { end: Method };
  response.end = function (this: { [EXCHANGE]?: Exchange }, ...args: unknown[]) {
    const exchange = this[EXCHANGE];
    if (exchange === undefined) return end.apply(this, args);
    exchange.end(() => end.apply(this, args));
    return this;
  } as never;
  replace(IncomingMessage.prototype, '_read', (exchange) => exchange.read());
  replace(IncomingMessage.prototype, '_destroy', (exchange, error, done) => exchange.abandon(error, done));
}

function replace(prototype: object, name: string, replacement: (exchange: Exchange, ...args: any[]) => unknown): void {
  const methods = prototype as Record<string, Method>;
  const native = methods[name]!;
  methods[name] = function (this: unknown, first, second, third) {
    const exchange = (this as { [EXCHANGE]?: Exchange })[EXCHANGE];
    return exchange === undefined ? native.call(this, first, second, third) : replacement(exchange, first, second, third);
  };
}
