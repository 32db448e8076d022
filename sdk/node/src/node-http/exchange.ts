/**
 * One request and its response, as `IncomingMessage` and `ServerResponse` of `node:http`. Both are real ones, because frameworks replace their
 * prototypes; `intercept.ts` leads what would reach a socket here.
 */
import { IncomingMessage, ServerResponse, validateHeaderName, validateHeaderValue } from 'node:http';
import type { Context } from '../context.js';
import { HttpError, Reply } from '../reply.js';
import type { BodySource, User, WireRequest } from '../request.js';
import { isPromise } from '../outcome.js';
import { KIND_NONE } from '../wire.js';
import { Connection } from './connection.js';

/** A listener of the event `request` of `node:http`. */
export type RequestListener = (request: IncomingMessage, response: ServerResponse) => unknown;

/** Set on requests and responses that belong to an exchange. */
export const EXCHANGE = Symbol('exchange');

export type Request = IncomingMessage & { [EXCHANGE]?: Exchange } & Internals;
export type Response = ServerResponse & { [EXCHANGE]?: Exchange } & Internals;

/** Members that `node:http` does not document, but has had in all supported versions of Node and Bun. */
interface Internals {
  _eventsCount: number;
  _header: string | null;
  _headerSent: boolean;
  _closed: boolean;
  _consuming: boolean;
  _readableState: { readingMore: boolean; endEmitted: boolean };
  outputSize: number;
  _addHeaderLines(lines: readonly string[], count: number): void;
  _dump(): void;
}

/** A context that tells of an abort by a callback, which costs less than an `AbortSignal`. */
interface AbortableContext extends Context {
  onAbort?: ((error: Error) => void) | null;
  /** The client's port and whether it speaks TLS, as `Source` has them. */
  readonly connection?: number;
}

type WriteCallback = (error?: Error | null) => void;
type Chunk = string | Uint8Array;

/** A response reports that it needs a drain from this many queued bytes on, as in Node. */
const HIGH_WATER_BYTES = 65_536;

const { kOutHeaders, kNeedDrain } = symbolsOf(['kOutHeaders', 'kNeedDrain']);

export class Exchange {
  readonly request: Request;
  readonly response: Response;
  readonly #wire: WireRequest;
  readonly #context: AbortableContext;
  readonly #connection: Connection;
  readonly #onOver: (() => void) | null;
  /** The rest of the request's body: undefined until it is first read. */
  #rest: BodySource | null | undefined;
  #isReading = false;
  #head: string[] = [];
  /** The fields behind the body. */
  #trailers: string[] | null = null;
  /** The chunks written and not taken yet, and their callbacks. */
  #chunks: Chunk[] = [];
  #callbacks: WriteCallback[] = [];
  /** Called when the response has been handed over; emits `finish`. */
  #onFinish: WriteCallback | null = null;
  #isEnding = false;
  #hasEnded = false;
  #isClosed = false;
  /** The result for the worker: a whole reply, one with a streamed body, or an error. */
  #outcome: Reply | null = null;
  #failure: Error | null = null;
  #settle: { resolve(reply: Reply): void; reject(error: unknown): void } | null = null;
  /** Wakes the reader of a streamed body. */
  #wake: (() => void) | null = null;

  /** `onOver` is called when the exchange is over. */
  constructor(wire: WireRequest, context: Context, onOver: (() => void) | null = null) {
    this.#onOver = onOver;
    this.#wire = wire;
    this.#context = context;
    const connection = (this.#connection = new Connection(this));
    const request = (this.request = new IncomingMessage(connection as never) as Request);
    request[EXCHANGE] = this;
    request.method = wire.method;
    request.url = wire.target;
    request.httpVersionMajor = 1;
    request.httpVersionMinor = 1;
    request.httpVersion = '1.1';
    const lines = wire.headerLines();
    if (wire.hasBody && wire.field('content-length') === null) lines.push('transfer-encoding', 'chunked');
    request._addHeaderLines(lines, lines.length);
    request.complete = !wire.isIncomplete;
    // Where Passport and what follows its example have it.
    const { user } = wire;
    if (user !== null) (request as { user?: User }).user = user;
    const response = (this.response = new ServerResponse(request) as unknown as Response);
    response[EXCHANGE] = this;
    (response as { socket: unknown }).socket = connection;
    connection._httpMessage = response;
  }

  /** Calls the listener. Returns the reply if that has ended the response, otherwise a promise. */
  run(listener: RequestListener): Reply | Promise<Reply> {
    try {
      const result = listener(this.request, this.response);
      if (isPromise(result)) result.then(undefined, (error: unknown) => this.#fail(error));
    } catch (error) {
      this.#fail(error);
    }
    if (this.#outcome !== null) {
      if (!this.#hasEnded) this.#watch();
      return this.#outcome;
    }
    if (this.#failure !== null) throw this.#failure;
    this.#watch();
    return new Promise((resolve, reject) => (this.#settle = { resolve, reject }));
  }

  /** Has the exchange closed when the job is aborted. */
  #watch(): void {
    const context = this.#context;
    if (context.onAbort !== undefined) context.onAbort = (error) => this.#abort(error);
    else context.signal.addEventListener('abort', () => this.#abort(context.signal.reason as Error), { once: true });
  }

  get peer(): string | undefined {
    return this.#wire.ip || undefined;
  }

  get connection(): number {
    return this.#context.connection ?? 0;
  }

  // The request.

  /** Pushes more of the body into the request. */
  read(): void {
    const { request } = this;
    if (!request._consuming) {
      request._readableState.readingMore = false;
      request._consuming = true;
    }
    if (this.#isReading) return;
    if (this.#isClosed) {
      // The rest of a request body is of no use after the response has ended.
      request.complete = true;
      request.push(null);
      return;
    }
    if (this.#rest === undefined) {
      const { first, rest } = this.#wire.open();
      this.#rest = rest;
      if (first.length > 0) request.push(first);
      if (first.length > 0 && rest !== null) return;
    }
    const rest = this.#rest;
    if (rest === null) {
      request.push(null);
      return;
    }
    this.#isReading = true;
    rest.read().then(
      (piece) => {
        this.#isReading = false;
        if (piece === null) {
          request.complete = true;
          const { trailers } = rest;
          if (trailers) {
            request.rawTrailers = [...trailers];
            request.trailers = objectOf(trailers);
          }
        }
        request.push(piece);
      },
      (error: unknown) => {
        // The rest of a body whose response has ended is of no use.
        if (this.#isClosed || this.#hasEnded) request.push(null);
        else this.destroy(error as Error);
      },
    );
  }

  /** `destroy` of the request. */
  abandon(error: Error | null, done: WriteCallback): void {
    const { request } = this;
    if (!request.readableEnded || !request.complete) {
      request.aborted = true;
      request.emit('aborted');
      this.destroy(error);
    }
    process.nextTick(() => done(request.listenerCount('error') === 0 ? null : error));
  }

  // The response.

  /** Takes the header fields: those set one by one, or those given to `writeHead`. */
  storeHead(fields: unknown): void {
    const { response } = this;
    const { statusCode } = response;
    if (statusCode < 200 || statusCode > 599) {
      throw new RangeError(`the status of a response is 200 to 599 behind Forebay, not ${statusCode}`);
    }
    const head = this.#head;
    if (fields !== null && fields !== undefined) {
      if (fields === (response as never)[kOutHeaders]) {
        const known = fields as Record<string, [string, unknown]>;
        for (const name in known) put(head, name, known[name]![1]);
      } else {
        for (const [name, value] of pairsOf(fields)) {
          validateHeaderName(name);
          if (!Array.isArray(value)) validateHeaderValue(name, value as string);
          put(head, name.toLowerCase(), value);
        }
      }
    }
    response._header = ' ';
    response._headerSent = false;
  }

  /** Takes fields that follow the body. As in Node, they are sent only if the body's length is not announced. */
  addTrailers(fields: unknown): void {
    for (const [name, value] of pairsOf(fields)) {
      validateHeaderName(name);
      for (const single of [value].flat()) validateHeaderValue(name, single as string);
      put((this.#trailers ??= []), name.toLowerCase(), value);
    }
  }

  get trailers(): readonly string[] | null {
    return this.#trailers;
  }

  /** Takes bytes of the body, or none to send the head. Returns whether more may be written without waiting for `drain`. */
  send(data: Chunk, encoding: BufferEncoding | null | undefined, callback: WriteCallback | null | undefined): boolean {
    if (this.#isEnding && data.length === 0) {
      this.#onFinish = callback ?? null;
      return true;
    }
    if (this.#isClosed) return false;
    this.#connection.active();
    if (data.length > 0) {
      const isText = typeof data === 'string' && (!encoding || encoding === 'utf8' || encoding === 'utf-8');
      this.#chunks.push(typeof data === 'string' && !isText ? Buffer.from(data, encoding!) : data);
      this.response.outputSize += data.length;
    }
    if (typeof callback === 'function') this.#callbacks.push(callback);
    if (this.#isEnding) return true;
    if (this.#outcome === null) this.#conclude(new Reply(this.response.statusCode, KIND_NONE, this.#head, new Body(this)));
    this.#wake?.();
    if (this.response.outputSize < HIGH_WATER_BYTES) return true;
    this.#needsDrain = true;
    return false;
  }

  set #needsDrain(value: boolean) {
    (this.response as unknown as Record<symbol, boolean>)[kNeedDrain] = value;
  }

  get #needsDrain(): boolean {
    return (this.response as unknown as Record<symbol, boolean>)[kNeedDrain]!;
  }

  /** Runs `end` of the response. */
  end(native: () => void): void {
    const { response } = this;
    this.#isEnding = true;
    try {
      native();
    } finally {
      this.#isEnding = false;
    }
    if (!response.writableEnded || this.#hasEnded) return;
    this.#hasEnded = true;
    if (this.#outcome !== null) {
      this.#wake?.();
      return;
    }
    if (this.#isClosed) return;
    // As in Node, a body that was never streamed has a length, unless the field `Trailer` says that something follows.
    if (this.#trailers !== null && this.#head.includes('trailer')) {
      this.#conclude(new Reply(response.statusCode, KIND_NONE, this.#head, new Body(this)));
      return;
    }
    const body = this.#take();
    this.#conclude(new Reply(response.statusCode, KIND_NONE, this.#head, body));
    finish(this);
  }

  /** The chunks written so far, in one piece; null if there are none. Their writers may go on. */
  #take(): Chunk | null {
    const chunks = this.#chunks;
    if (chunks.length === 0) return null;
    this.#chunks = [];
    this.response.outputSize = 0;
    if (this.#callbacks.length > 0) for (const callback of this.#callbacks.splice(0)) process.nextTick(callback, null);
    if (this.#needsDrain && !this.#hasEnded) {
      this.#needsDrain = false;
      process.nextTick(() => this.response.emit('drain'));
    }
    if (chunks.length === 1) return chunks[0]!;
    if (chunks.every((chunk) => typeof chunk === 'string')) return chunks.join('');
    return Buffer.concat(chunks.map((chunk) => (typeof chunk === 'string' ? Buffer.from(chunk) : chunk)));
  }

  #conclude(reply: Reply): void {
    this.#outcome = reply;
    this.#settle?.resolve(reply);
  }

  /** The next piece of a streamed body. */
  async next(): Promise<IteratorResult<Chunk, undefined>> {
    for (;;) {
      const value = this.#take();
      if (value !== null) return { done: false, value };
      if (this.#failure !== null) throw this.#failure;
      if (this.#hasEnded) {
        finish(this);
        return { done: true, value: undefined };
      }
      await new Promise<void>((resolve) => (this.#wake = resolve));
      this.#wake = null;
    }
  }

  // The end.

  /** Emits the events of a response that has been handed over. */
  finished(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { request, response } = this;
    this.#onFinish?.();
    closed(response);
    // Only listeners can tell whether the rest of the request is read.
    if (request._eventsCount > 0 && !request._readableState.endEmitted) request._dump();
    this.#connection.close(false);
    this.#onOver?.();
  }

  /** The listener has thrown, or its promise was rejected. */
  #fail(error: unknown): void {
    if (this.#hasEnded || this.#isClosed) return;
    this.destroy(error instanceof Error ? error : new Error(String(error)));
  }

  /** The client has gone, or waits no longer. */
  #abort(error: Error): void {
    if (this.#isClosed) return;
    if (error.name === 'TimeoutError' && this.#outcome === null) {
      const { method, path } = this.#wire;
      this.#context.log.warn(
        `${method} ${path} was not answered in time: the application has not ended its response (res.end(), res.send(), ...), or waits ` +
          'for something that takes longer than run_timeout of the pool or deadline of the route',
      );
    }
    this.destroy(Object.assign(new Error('aborted'), { code: 'ECONNRESET', cause: error }), ABORTED);
  }

  /** Gives up what has not been sent. `reply` is for a client that is no longer there. */
  destroy(error: Error | null, reply: Reply | null = null): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    const { request, response } = this;
    const wasComplete = this.#hasEnded && this.#outcome !== null && this.#chunks.length === 0;
    this.#failure = error ?? new HttpError(502, 'the application has destroyed the connection');
    if (this.#outcome === null) {
      if (reply === null) this.#settle?.reject(this.#failure);
      else this.#conclude(reply);
    }
    for (const callback of this.#callbacks.splice(0)) process.nextTick(callback, this.#failure);
    this.#chunks = [];
    this.#wake?.();
    process.nextTick(() => {
      if (!wasComplete) request.destroy(reply === null ? (error ?? undefined) : (error as Error));
      closed(response);
      this.#connection.close(error !== null);
      this.#onOver?.();
    });
    this.#connection.destroyed = true;
  }

  timeout(): void {
    const { request, response } = this;
    const inRequest = !request.complete && request.emit('timeout', this.#connection);
    const inResponse = response.emit('timeout', this.#connection);
    const inConnection = this.#connection.emit('timeout');
    if (!inRequest && !inResponse && !inConnection) this.destroy(null);
  }
}

/** The reply to a client that has gone. */
const ABORTED = new Reply(503, KIND_NONE, [], null);

/** The pieces of a streamed response. */
class Body implements AsyncIterableIterator<Chunk, undefined> {
  readonly #exchange: Exchange;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  next(): Promise<IteratorResult<Chunk, undefined>> {
    return this.#exchange.next();
  }

  get trailers(): readonly string[] | null {
    return this.#exchange.trailers;
  }

  async return(): Promise<IteratorResult<Chunk, undefined>> {
    this.#exchange.destroy(null);
    return { done: true, value: undefined };
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

/** Responses whose `finish` is to be emitted on the next tick. */
let finishing: Exchange[] = [];

function finish(exchange: Exchange): void {
  if (finishing.push(exchange) === 1) process.nextTick(finishAll);
}

function finishAll(): void {
  const exchanges = finishing;
  finishing = [];
  for (const exchange of exchanges) exchange.finished();
}

function closed(response: Response): void {
  if (response._closed) return;
  response.destroyed = true;
  response._closed = true;
  if (response._eventsCount > 0) response.emit('close');
}

/** The fields of an object, or of an array of names and values in turn or in pairs. */
function pairsOf(fields: unknown): Iterable<[string, unknown]> {
  if (!Array.isArray(fields)) return Object.entries(fields as object);
  if (Array.isArray(fields[0])) return fields as [string, unknown][];
  return Array.from({ length: fields.length / 2 }, (_, index) => [fields[index * 2] as string, fields[index * 2 + 1]]);
}

/** Names and values in turn as an object; values of the same name are joined. */
function objectOf(fields: readonly string[]): Record<string, string> {
  const object: Record<string, string> = {};
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at]!;
    object[name] = Object.hasOwn(object, name) ? `${object[name]}, ${fields[at + 1]}` : fields[at + 1]!;
  }
  return object;
}

function put(head: string[], name: string, value: unknown): void {
  if (Array.isArray(value)) for (const single of value) head.push(name, String(single));
  else head.push(name, String(value));
}

/** Symbols of `node:http` under which a response has its state, by description. */
function symbolsOf<Name extends string>(names: readonly Name[]): Record<Name, symbol> {
  const response = new ServerResponse({ method: 'GET', httpVersionMajor: 1, httpVersionMinor: 1 } as IncomingMessage);
  const symbols = Object.getOwnPropertySymbols(response);
  return Object.fromEntries(names.map((name) => [name, symbols.find(({ description }) => description === name) ?? Symbol(name)])) as Record<Name, symbol>;
}
