/**
 * Handlers of messages: functions found by a message's type, which is the request's path, each loaded when the first message of its type comes.
 */
import { pathToFileURL } from 'node:url';
import type { Context, Log, WorkerInfo, WorkerState } from '../context.js';
import { encodeThrown } from '../failure.js';
import type { LoadedHandler } from '../handler.js';
import { isPromise } from '../outcome.js';
import { FAILURE, PART, PARTS_TYPE, REPLY, part } from '../parts.js';
import { decode, encode } from '../message.js';
import { Reply } from '../reply.js';
import type { HttpRequest, WireRequest } from '../request.js';
import { KIND_JSON, KIND_NONE, type Bytes } from '../wire.js';

/** Where the handler of a type is: an export of a module, or the body of a function of `message` and `ctx`. */
export type HandlerSource =
  | { readonly file: string; readonly export: string | null }
  | { readonly source: string };

/** What handlers of messages are given beside the message. */
export interface MessageContext extends Context {
  /** The message's type. */
  readonly type: string;
  /**
   * Sends something ahead of the reply: `stream()` of the pool gives it to whoever asked, `run()` to its `onPart`. Wait for the promise where there is much to send.
   * @throws RangeError when 4,096 parts wait to be sent.
   */
  send(part: unknown): Promise<void>;
}

/** Answers a message; what it returns, itself or in a promise, is the reply. */
export type MessageHandler = (message: any, ctx: MessageContext) => unknown;

/** Parts that may wait in memory. */
const PARTS_MAX = 4_096;

const NO_HEADERS: readonly string[] = [];
const PARTS_HEADERS: readonly string[] = ['content-type', PARTS_TYPE];

/** A handler of requests that has messages answered by the functions of these modules. */
export function loadMessages(sources: Readonly<Record<string, HandlerSource>>): LoadedHandler {
  const found = new Map<string, MessageHandler>();
  const loading = new Map<string, Promise<MessageHandler>>();

  function handle(request: HttpRequest, ctx: Context): unknown {
    const { methodAndPath } = request as WireRequest;
    const handler = found.get(methodAndPath);
    if (handler !== undefined) return answer(handler, request as WireRequest, new Message(ctx, methodAndPath));
    return load(methodAndPath).then(
      (loaded) => answer(loaded, request as WireRequest, new Message(ctx, methodAndPath)),
      (error: unknown) => failed(error),
    );
  }

  function load(head: string): Promise<MessageHandler> {
    let promise = loading.get(head);
    if (promise === undefined) {
      promise = loadSource(sourceOf(typeOf(head)), typeOf(head));
      loading.set(head, promise);
      // One that does not load is tried again with the next message.
      promise.then((handler) => found.set(head, handler)).catch(() => {}).finally(() => loading.delete(head));
    }
    return promise;
  }

  function sourceOf(type: string): HandlerSource | undefined {
    return Object.hasOwn(sources, type) ? sources[type] : fileOf(type);
  }

  return { handle: handle as LoadedHandler['handle'], isRouter: false, reads: [], start: [], stop: [] };
}

/** A type that names a file itself, and its export or none: `file:///app/resize.mjs#crop`. */
function fileOf(type: string): HandlerSource | undefined {
  if (!type.startsWith('file://')) return undefined;
  const hash = type.lastIndexOf('#');
  return { file: type.slice(0, hash), export: type.slice(hash + 1) || null };
}

async function loadSource(source: HandlerSource | undefined, type: string): Promise<MessageHandler> {
  if (source === undefined) throw new TypeError(`no handler for messages of type ${JSON.stringify(type)}`);
  if ('source' in source) return new Function('message', 'ctx', source.source) as MessageHandler;
  const { file } = source;
  const module = (await import(file.startsWith('file:') ? file : pathToFileURL(file).href)) as Record<string, unknown>;
  const common = module['default'] as Record<string, unknown> | undefined;
  const names = source.export === null ? ['default', 'handler'] : [source.export];
  for (const name of names) {
    for (const candidate of [module[name], common?.[name]]) if (typeof candidate === 'function') return candidate as MessageHandler;
  }
  throw new TypeError(`${file} exports no function named ${names.join(' or ')}, which messages of type ${JSON.stringify(type)} are for`);
}

/** The type in `POST/resize`. */
function typeOf(head: string): string {
  return decodeURIComponent(head.slice(head.indexOf('/') + 1));
}

function answer(handler: MessageHandler, request: WireRequest, message: Message): unknown {
  const body = request.bytesNow() as Bytes | undefined;
  if (body === undefined) {
    return request.bytes().then((bytes) => call(handler, decode(bytes as Bytes, 0, bytes.length), message)).catch(failed);
  }
  let value: unknown;
  try {
    value = decode(body, 0, body.length);
  } catch (error) {
    return failed(error);
  }
  return call(handler, value, message);
}

function call(handler: MessageHandler, value: unknown, message: Message): unknown {
  let result: unknown;
  try {
    result = handler(value, message);
    if (!isPromise(result)) return message.parts === null ? replied(result) : message.close(result);
  } catch (error) {
    return message.parts === null ? failed(error) : message.fail(error);
  }
  // The answer begins with the first part, or is the reply.
  return new Promise<Reply>((resolve) => {
    message.begun = resolve;
    if (message.parts !== null) resolve(message.stream());
    (result as PromiseLike<unknown>).then(
      (reply) => resolve(message.parts === null ? replied(reply) : message.close(reply)),
      (error: unknown) => resolve(message.parts === null ? failed(error) : message.fail(error)),
    );
  });
}

function replied(value: unknown): Reply {
  try {
    return new Reply(200, KIND_JSON, NO_HEADERS, encode(value));
  } catch (error) {
    return failed(error);
  }
}

/** Whoever sent the message is told all of it: nothing is left to report here. */
function failed(error: unknown): Reply {
  return new Reply(500, KIND_JSON, NO_HEADERS, encodeThrown(error), { error, isTold: true });
}

class Message implements MessageContext {
  /** What was sent and has not left; null before anything was. */
  parts: Uint8Array[] | null = null;
  /** Called with the answer when the first part is sent, while the handler goes on. */
  begun: ((reply: Reply) => void) | null = null;
  readonly #ctx: Context;
  readonly #head: string;
  #taken: (() => void)[] = [];
  #wake: (() => void) | null = null;
  #ended = false;
  #stream: Reply | null = null;

  constructor(ctx: Context, head: string) {
    this.#ctx = ctx;
    this.#head = head;
  }

  get type(): string {
    return typeOf(this.#head);
  }

  get state(): WorkerState {
    return this.#ctx.state;
  }

  get worker(): WorkerInfo {
    return this.#ctx.worker;
  }

  get log(): Log {
    return this.#ctx.log;
  }

  get signal(): AbortSignal {
    return this.#ctx.signal;
  }

  get deadline(): Date | null {
    return this.#ctx.deadline;
  }

  remaining(): number {
    return this.#ctx.remaining();
  }

  send(value: unknown): Promise<void> {
    if (this.#ended) throw new Error('the message has been answered: nothing more can be sent');
    if (this.parts !== null && this.parts.length >= PARTS_MAX) {
      throw new RangeError(`${PARTS_MAX} parts wait to be sent: wait for the promise of send()`);
    }
    const bytes = part(PART, encode(value));
    (this.parts ??= []).push(bytes);
    this.#advance();
    this.begun?.(this.stream());
    return new Promise((resolve) => this.#taken.push(resolve));
  }

  /** The reply comes after the parts. */
  close(value: unknown): Reply {
    try {
      this.#last(part(REPLY, encode(value)));
    } catch (error) {
      return this.fail(error);
    }
    return this.stream();
  }

  fail(error: unknown): Reply {
    this.#last(part(FAILURE, encodeThrown(error)));
    return this.stream();
  }

  #last(bytes: Uint8Array): void {
    this.parts!.push(bytes);
    this.#ended = true;
    this.#advance();
  }

  #advance(): void {
    this.#wake?.();
    this.#wake = null;
  }

  /** The answer that gives all parts, and then what `close` or `fail` were told. */
  stream(): Reply {
    return (this.#stream ??= new Reply(200, KIND_NONE, PARTS_HEADERS, this.#pieces()));
  }

  async *#pieces(): AsyncGenerator<Uint8Array> {
    const parts = this.parts!;
    for (;;) {
      const next = parts.shift();
      if (next !== undefined) {
        yield next;
        this.#taken.shift()?.();
      } else if (this.#ended) {
        return;
      } else {
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    }
  }
}
