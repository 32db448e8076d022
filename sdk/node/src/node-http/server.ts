/**
 * Stands in for the servers of `node:http`, `node:https` and Bun that an application starts: `listen` opens no socket, and the server's
 * requests are those of the pool.
 */
import { Server as HttpServer } from 'node:http';
import { Server as HttpsServer } from 'node:https';
import type { Handler, Listening } from '../handler.js';
import { HttpError } from '../reply.js';
import type { WireRequest } from '../request.js';
import { Exchange, onOver } from './exchange.js';
import { intercept } from './intercept.js';
import { UpgradeSocket } from './upgrade.js';

/** An address as an application names it; a number, or the path of a Unix socket. */
interface Address {
  readonly port: number | string;
  readonly host: string | undefined;
}

/** How long an application may take to listen after its module has been loaded. */
const LISTEN_WAIT_MS = 10_000;
const LISTEN_POLL_MS = 20;

const ADDRESS = Symbol('address');

type StandIn = HttpServer & { [ADDRESS]?: Address | undefined };

/** What the application listens with first; a process has one. */
let served: { readonly port: number | string; readonly handle: Handler } | null = null;
let wake: (() => void) | null = null;

/** Makes a handler the one of this application. @throws Error if it listens at another port already. */
export function listen(port: number | string, handle: Handler): void {
  if (served !== null) {
    // A host name may have several addresses; Fastify has a server for each of them.
    if (served.port === port) return;
    throw new Error(
      `the application listens twice, at ${served.port} and at ${port}, and Forebay serves one application per pool: move the second one to ` +
        'a file of its own, with a pool and a route of its own',
    );
  }
  served = { port, handle };
  wake?.();
}

/** From now on `listen` of this process's HTTP servers opens no socket. */
export function standInForServers(): Listening {
  intercept();
  const resources = process.getActiveResourcesInfo().length;
  for (const { prototype } of [HttpServer, HttpsServer] as const) {
    const native = { close: prototype.close, address: prototype.address, listening: listeningOf(prototype) };
    Object.defineProperties(prototype, {
      listen: { value: listenServer, writable: true, configurable: true },
      close: {
        value: function (this: StandIn, callback?: (error?: Error) => void) {
          return this[ADDRESS] === undefined ? native.close.call(this, callback) : closeServer(this, callback);
        },
        writable: true,
        configurable: true,
      },
      address: {
        value: function (this: StandIn) {
          return this[ADDRESS] === undefined ? native.address.call(this) : addressOf(this[ADDRESS]);
        },
        writable: true,
        configurable: true,
      },
      listening: {
        get(this: StandIn) {
          return this[ADDRESS] !== undefined || native.listening.call(this);
        },
        configurable: true,
      },
    });
  }
  return {
    handler: () => served?.handle ?? null,
    async wait() {
      if (served === null) await listeningWithin(LISTEN_WAIT_MS, resources);
      return served?.handle ?? null;
    },
  };
}

/** Resolves once the application listens, or when it is too late or nothing is under way any more that could listen. */
function listeningWithin(milliseconds: number, resources: number): Promise<void> {
  const until = performance.now() + milliseconds;
  return new Promise((resolve) => {
    const timer = setInterval(() => {
      // Bun does not tell what is under way.
      const isIdle = process.versions['bun'] === undefined && process.getActiveResourcesInfo().length <= resources;
      if (isIdle || performance.now() > until) finish();
    }, LISTEN_POLL_MS);
    timer.unref();
    const finish = (wake = () => {
      clearInterval(timer);
      resolve();
    });
  });
}

function listeningOf(prototype: object): () => boolean {
  for (let holder: object | null = prototype; holder !== null; holder = Object.getPrototypeOf(holder) as object | null) {
    const get = Object.getOwnPropertyDescriptor(holder, 'listening')?.get;
    if (get !== undefined) return get as () => boolean;
  }
  return () => false;
}

/** `listen(port?, host?, backlog?, callback?)`, `listen(path, ...)` or `listen({ port, host, path }, ...)`. */
function listenServer(this: StandIn, ...given: unknown[]): StandIn {
  if (this[ADDRESS] !== undefined) {
    throw Object.assign(new Error('Listen method has been called more than once without closing.'), { code: 'ERR_SERVER_ALREADY_LISTEN' });
  }
  const callback = given.findLast((value) => typeof value === 'function');
  if (callback !== undefined) this.once('listening', callback as () => void);
  const address = addressIn(given);
  listen(address.port, handlerOf(this));
  this[ADDRESS] = address;
  process.nextTick(() => {
    if (this[ADDRESS] === address) this.emit('listening');
  });
  return this;
}

function addressIn([first, second]: readonly unknown[]): Address {
  const options = typeof first === 'object' && first !== null ? (first as Record<string, unknown>) : { port: first, host: second };
  const { port, host, path } = options as Record<string, unknown>;
  const text = path ?? port ?? 0;
  const number = Number(text);
  if (Number.isNaN(number)) return { port: String(text), host: undefined };
  return { port: number, host: typeof host === 'string' ? host : undefined };
}

function addressOf({ port, host = '::' }: Address): string | { address: string; family: string; port: number } {
  if (typeof port === 'string') return port;
  const address = host === 'localhost' ? '127.0.0.1' : host;
  return { address, family: address.includes(':') ? 'IPv6' : 'IPv4', port };
}

/** Requests of a server that are not over. */
let open = 0;
let closing: (() => void)[] = [];

onOver(() => {
  open--;
  if (open === 0) for (const close of closing.splice(0)) close();
});

function closeServer(server: StandIn, callback?: (error?: Error) => void): StandIn {
  server[ADDRESS] = undefined;
  if (callback !== undefined) server.once('close', callback);
  const close = () => server.emit('close');
  if (open > 0) closing.push(close);
  else process.nextTick(close);
  return server;
}

/** Emits each request as the event that the server would have emitted. */
export function handlerOf(server: StandIn): Handler {
  const listener = (request: unknown, response: unknown) => void server.emit('request', request, response);
  return (request, context) => {
    if (server[ADDRESS] === undefined) throw new HttpError(503, 'the application has closed its server');
    const wire = request as WireRequest;
    // As in Node, nobody's upgrade is a plain request.
    if (server.listenerCount('upgrade') > 0 && wire.field('upgrade') !== null) {
      const socket = new UpgradeSocket(wire);
      server.emit('upgrade', new Exchange(wire, context).request, socket, Buffer.alloc(0));
      return socket.outcome;
    }
    open++;
    return new Exchange(wire, context).run(listener);
  };
}
