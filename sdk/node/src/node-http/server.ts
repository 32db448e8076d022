/** Stands in for the servers of `node:http` and `node:https`: `listen` opens no socket, and the server's requests are those of the pool. */
import type { Server } from 'node:http';
import type { ServerModule } from '../loader/first-use.js';
import { listen } from './listening.js';

/** An address as an application names it; a number, or the path of a Unix socket. */
interface Address {
  readonly port: number | string;
  readonly host: string | undefined;
}

const ADDRESS = Symbol('address');

type StandIn = Server & { [ADDRESS]?: Address | undefined };

/** From now on `listen` of this module's servers opens no socket, and this process counts as a worker of its cluster. */
export function standInFor(name: ServerModule): void {
  if (name !== 'node:cluster') return standInForServer(process.getBuiltinModule(name).Server);
  // The pool has as many workers as it says: an application that forks its own is at once what it would have forked.
  const worker = { id: process.pid, process, isConnected: () => true, isDead: () => false };
  Object.assign(process.getBuiltinModule(name), { isPrimary: false, isMaster: false, isWorker: true, worker });
}

function standInForServer({ prototype }: { readonly prototype: Server }): void {
  const native = { close: prototype.close, address: prototype.address, listening: listeningOf(prototype) };
  const method = (value: unknown) => ({ value, writable: true, configurable: true });
  Object.defineProperties(prototype, {
    listen: method(listenServer),
    close: method(function (this: StandIn, callback?: (error?: Error) => void) {
      return this[ADDRESS] === undefined ? native.close.call(this, callback) : closeServer(this, callback);
    }),
    address: method(function (this: StandIn) {
      return this[ADDRESS] === undefined ? native.address.call(this) : addressOf(this[ADDRESS]);
    }),
    listening: {
      get(this: StandIn) {
        return this[ADDRESS] !== undefined || native.listening.call(this);
      },
      configurable: true,
    },
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
  listen(address.port, async () => (await import('./server-handler.js')).serverHandler(this));
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

/** Requests of the server that are not over, and servers that close after them. */
let open = 0;
let closing: (() => void)[] = [];

/** A request begins. False if the application has closed its server. */
export function begin(server: StandIn): boolean {
  if (server[ADDRESS] === undefined) return false;
  open++;
  return true;
}

/** A request is over. */
export function end(): void {
  open--;
  if (open === 0) for (const close of closing.splice(0)) close();
}

function closeServer(server: StandIn, callback?: (error?: Error) => void): StandIn {
  server[ADDRESS] = undefined;
  if (callback !== undefined) server.once('close', callback);
  const close = () => server.emit('close');
  if (open > 0) closing.push(close);
  else process.nextTick(close);
  return server;
}
