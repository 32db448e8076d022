/** The `this` of handlers and startup modules, and how a handler replies: by `finished()`, or by what its promise resolves to. */
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { isPromise } from '../outcome.js';
import type { MessageContext, MessageHandler } from '../messages.js';
import { Listeners, type Listener } from './listeners.js';
import { errorText, memoryOf, unpack, upTime, type HandlerEntry, type Setup, type WorkerReport } from './setup.js';

/** Sends the reply; further calls have no effect. */
export type Finished = (reply?: unknown) => void;

/** A handler in QOper8's form. */
export type QOper8Handler = (this: HandlerThis, message: any, finished: Finished) => unknown;

/**
 * The `this` of startup modules, which may add members. Handlers get a copy for each message; members that they add last only as long as
 * the message.
 */
export interface HandlerThis {
  /** The worker's id, from 0. */
  id: number;
  /** Sends a part ahead of the reply; has no effect in a startup module. */
  send(part: unknown): void;
  postMessage(part: unknown): void;
  on(event: string, listener: Listener): void;
  off(event: string, listener?: Listener): void;
  emit(event: string, data?: unknown): void;
  /** Writes a line with a timestamp, if logging is on. */
  log(message: unknown): void;
  upTime(): string;
  getMessageCount(): number;
  cwd: string;
  /** Lives as long as the worker. An entry with `at`, a time in milliseconds, is removed `cacheExpiryTime` after it. */
  cache: Map<unknown, any>;
  /** Runs the handler for a message in this worker. */
  onMessage(message: { type: string }): Promise<unknown>;
  [name: string]: any;
}

/** Events of the worker, not of a message: listeners that a handler adds to them stay. */
const LASTING = new Set(['stop', 'shutdown_signal_sent']);
/** Maximum number of listeners that handlers may add to these events. */
const LASTING_MAX = 100;

/** A message while its handler runs. */
class Exchange {
  readonly context: MessageContext;
  isOver = false;
  reply: unknown = undefined;
  settle: ((reply: unknown) => void) | null = null;
  listeners: [event: string, listener: Listener][] | null = null;

  constructor(context: MessageContext) {
    this.context = context;
  }
}

export class Self {
  readonly id: number;
  logging: boolean;
  readonly #control: string;
  readonly #this: HandlerThis;
  readonly #listeners: Listeners;
  readonly #handlers = new Map<string, MessageHandler>();
  readonly #started = Date.now();
  readonly #timer: NodeJS.Timeout;
  #messages = 0;
  #ignored = 0;
  #lasting = 0;
  #current: Exchange | null = null;
  #closeDatabase: () => void = () => {};

  constructor({ control, logging, cacheExpiryTime, checkInterval }: Pick<Setup, 'control' | 'logging' | 'cacheExpiryTime' | 'checkInterval'>, id: number) {
    this.id = id;
    this.#control = control;
    this.logging = logging;
    const toNobody = (): void => void this.#ignored++;
    this.#this = {
      id,
      send: toNobody,
      postMessage: toNobody,
      on: (event, listener) => this.#on(event, listener),
      off: (event, listener) => this.#listeners.off(event, listener),
      emit: (event, data) => void this.#listeners.emit(event, data),
      log: (message) => this.#log(message),
      upTime: () => upTime(this.#started),
      getMessageCount: () => this.#messages,
      cwd: process.cwd(),
      cache: new Map(),
      onMessage: (message) => this.#onMessage(message),
    };
    this.#listeners = new Listeners(this.#this);
    this.#timer = setInterval(() => this.#expire(cacheExpiryTime), checkInterval).unref();
  }

  /** Opens the database and runs the startup module. */
  async start({ onStartup, mgdbx }: Setup): Promise<void> {
    if (mgdbx !== null) {
      const { openDatabase } = await import('./database.js');
      this.#closeDatabase = openDatabase(this.#this, mgdbx);
    }
    if (onStartup !== null) {
      const { module, path, packed } = onStartup;
      let startUp: unknown;
      try {
        startUp = await load(module, path, 'onStartupModule');
      } catch (error) {
        throw new Error(`Unable to load onStartup customisation module ${module}: ${messageOf(error)}`, { cause: error });
      }
      try {
        await this.startWith(startUp as (this: HandlerThis, args: unknown) => unknown, unpack(packed));
      } catch (error) {
        const failure = new Error(`Error running onStartup customisation module ${module}: ${messageOf(error)}`, { cause: error });
        if (error instanceof Error && error.stack !== undefined) failure.stack = error.stack;
        throw failure;
      }
      this.#log(`onStartup customisation module ${module} has run`);
    }
    this.#log(`worker ${this.id} has started`);
    this.#listeners.emit('started', { id: this.id });
  }

  async startWith(startUp: (this: HandlerThis, args: unknown) => unknown, args: unknown): Promise<void> {
    await startUp.call(this.#this, args ?? {});
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#log(`worker ${this.id} stops`);
    await Promise.all(this.#listeners.emit('stop'));
    this.#closeDatabase();
    this.#listeners.emit('shutdown_signal_sent');
  }

  report(): WorkerReport {
    return {
      pid: process.pid,
      uptime: upTime(this.#started),
      noOfMessages: this.#messages,
      memory: memoryOf(process.memoryUsage()),
      ignoredReplies: this.#ignored,
    };
  }

  // Running handlers.

  /** The handler for a message type; a module is loaded with the first message of that type. */
  handlerOf(type: string, entry: HandlerEntry | QOper8Handler): MessageHandler {
    let handler: QOper8Handler | null = typeof entry === 'function' ? entry : null;
    const answer: MessageHandler = (message, context) => {
      if (this.logging) this.#log(`message of type ${type} received by worker ${this.id}`);
      if (this.#listeners.has('received')) this.#listeners.emit('received', { message });
      if (handler !== null) return this.#run(handler, type, message, context);
      return handlerFrom(entry as HandlerEntry).then(
        (loaded) => {
          handler = loaded;
          this.#log(`handler of type ${type} loaded in worker ${this.id}`);
          this.#listeners.emit(`handler${type}Loaded`);
          this.#listeners.emit('handler_imported', { type });
          return this.#run(handler, type, message, context);
        },
        (error: unknown) => this.#notLoaded(entry as HandlerEntry, error),
      );
    };
    this.#handlers.set(type, answer);
    return answer;
  }

  /** A file that cannot be loaded now may be loadable later, so the worker is kept. */
  #notLoaded(entry: HandlerEntry, cause: unknown): never {
    const module = 'module' in entry ? entry.module : '';
    const error = `Unable to load Handler module ${module}`;
    const caughtError = errorText(cause);
    this.#log(`${error}: ${caughtError}`);
    this.#listeners.emit('error', { error, caughtError });
    throw Object.assign(new Error(error), { notLoaded: this.#control, module, caughtError });
  }

  #run(handler: QOper8Handler, type: string, message: unknown, context: MessageContext): unknown {
    this.#messages++;
    const exchange = new Exchange(context);
    const outer = this.#current;
    this.#current = exchange;
    const finished: Finished = (reply) => this.#finish(exchange, reply, outer);
    const self = { ...this.#this };
    self.send = self.postMessage = (part: unknown) => this.#send(exchange, part);
    let result: unknown;
    try {
      result = handler.call(self, message, finished);
    } catch (error) {
      if (exchange.isOver) return this.#late(exchange, type, error);
      throw this.#failed(exchange, type, error, outer);
    }
    if (!isPromise(result)) return exchange.isOver ? exchange.reply : new Promise((settle) => (exchange.settle = settle));
    const promise = result as PromiseLike<unknown>;
    if (exchange.isOver) {
      promise.then(undefined, (error: unknown) => this.#late(exchange, type, error));
      return exchange.reply;
    }
    return new Promise((settle, reject) => {
      exchange.settle = settle;
      promise.then(
        (value) => {
          // If the function returned nothing, something that it started may still call `finished`.
          if (value !== undefined && !exchange.isOver) finished(value);
        },
        (error: unknown) => {
          if (exchange.isOver) this.#late(exchange, type, error);
          else reject(this.#failed(exchange, type, error, outer));
        },
      );
    });
  }

  #finish(exchange: Exchange, reply: unknown, outer: Exchange | null): void {
    if (exchange.isOver) {
      this.#ignored++;
      this.#log(`worker ${this.id}: finished() was called for a message that had been answered`);
      return;
    }
    exchange.reply = reply ?? {};
    if (this.#listeners.has('finished')) this.#listeners.emit('finished', exchange.reply);
    this.#over(exchange, outer);
    exchange.settle?.(exchange.reply);
  }

  #over(exchange: Exchange, outer: Exchange | null): void {
    exchange.isOver = true;
    for (const [event, listener] of exchange.listeners ?? []) this.#listeners.off(event, listener);
    if (this.#current === exchange) this.#current = outer;
  }

  #send(exchange: Exchange, part: unknown): void {
    if (exchange.isOver) this.#ignored++;
    else exchange.context.send(part).catch(() => {});
  }

  #failed(exchange: Exchange, type: string, error: unknown, outer: Exchange | null): unknown {
    this.#over(exchange, outer);
    this.#tell(type, error);
    return error;
  }

  /** Logs an error thrown after the reply; the reply stands. */
  #late(exchange: Exchange, type: string, error: unknown): unknown {
    process.stderr.write(`forebay: the handler of ${type} failed after it had answered: ${error instanceof Error ? error.stack : String(error)}\n`);
    this.#tell(type, error);
    return exchange.reply;
  }

  #tell(type: string, cause: unknown): void {
    if (!this.logging && !this.#listeners.has('error')) return;
    const error = `Error running Handler Method for type ${type}`;
    const caughtError = errorText(cause);
    this.#log(`${error}: ${caughtError}`);
    this.#listeners.emit('error', { error, caughtError });
  }

  // Members of `this`.

  #on(event: string, listener: Listener): void {
    const exchange = this.#current;
    this.#listeners.on(event, listener);
    if (exchange === null) return;
    if (!LASTING.has(event)) (exchange.listeners ??= []).push([event, listener]);
    else if (++this.#lasting > LASTING_MAX) {
      this.#listeners.off(event, listener);
      throw new RangeError(`handlers have added ${LASTING_MAX} listeners to 'stop' and 'shutdown_signal_sent', and may add no more: add them in the start-up module`);
    }
  }

  #log(message: unknown): void {
    if (this.logging) console.log(`${Date.now()}: ${String(message)}`);
  }

  async #onMessage(message: { type: string }): Promise<unknown> {
    const handler = this.#handlers.get(message.type);
    const context = this.#current?.context;
    if (handler === undefined || context === undefined) return { error: `No handler defined for messages of type ${message.type}`, originalMessage: message };
    return handler(message, context);
  }

  #expire(after: number): void {
    const now = Date.now();
    const { cache } = this.#this;
    for (const [key, value] of cache) if (now - (value as { at?: number } | null)?.at! > after) cache.delete(key);
  }
}

async function handlerFrom(entry: HandlerEntry): Promise<QOper8Handler> {
  if ('text' in entry) return new Function('message', 'finished', entry.text) as QOper8Handler;
  return (await load(entry.module, entry.path ?? null, 'handler')) as QOper8Handler;
}

/** A function exported by a module, by name or as default. */
async function load(file: string, folder: string | null, name: string): Promise<unknown> {
  const url = file.startsWith('file:') ? file : pathToFileURL(resolve(folder ?? '.', file)).href;
  const module = (await import(url)) as Record<string, unknown>;
  const common = module['default'] as Record<string, unknown> | undefined;
  for (const found of [module[name], common?.[name], common]) if (typeof found === 'function') return found;
  throw new TypeError(`${file} exports no function named ${name}`);
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
