/**
 * Message handlers: functions that take a value and return one. They are independent of how they are called: by an HTTP request or by a
 * message of a pool inside a program.
 */
import type { Context, Log, WorkerInfo, WorkerState } from './context.js';
import { withoutMove } from './transfer.js';
import type { Handler } from './handler.js';
import { isPromise } from './outcome.js';
import { HttpError, Reply, errorReply, toJson } from './reply.js';
import { KIND_JSON, KIND_NONE } from './wire.js';

/** The second argument of a message handler. */
export interface MessageContext extends Context {
  /** The message's type. */
  readonly type: string;
  /**
   * Sends a part ahead of the reply. In a program, parts reach `stream()` of the pool, or the `onPart` callback of `run()`. The server
   * answers with `application/x-ndjson`: lines of `{"part":...}`, then one line of `{"reply":...}`. Await the promise if you send many
   * parts.
   * @throws RangeError when 4,096 parts wait to be sent.
   */
  send(part: unknown): Promise<void>;
}

/** Handles a message; the returned value, or what the returned promise resolves to, is the reply. */
export type MessageHandler = (message: any, ctx: MessageContext) => unknown;

/** Message handlers by message type. */
export type MessageTable = Readonly<Record<string, MessageHandler>>;

/** A request handler that dispatches to message handlers. */
export interface MessagesHandler<T extends MessageTable = MessageTable> extends Handler {
  readonly messages: T;
}

/**
 * Makes a handler module of message handlers. A `Pool` calls them by message type. In the server, the type is the last segment of the path
 * of a POST request, and message and reply are JSON.
 *
 * ```js
 * export default messages({
 *   resize: async ({ file, width }, ctx) => ({ bytes: 4711 }),
 * });
 * ```
 */
export function messages<T extends MessageTable>(table: T): MessagesHandler<T> {
  const handle: Handler = async (request, ctx) => {
    const type = typeOf(request.path);
    if (!Object.hasOwn(table, type)) throw new HttpError(404, `no handler for messages of type ${JSON.stringify(type)}`);
    if (request.method !== 'POST') throw new HttpError(405, 'messages are posted', { headers: { allow: 'POST' } });
    const text = await request.text();
    return callHandler(table[type]!, readJson(text), new Message(ctx, type, LINES));
  };
  return Object.assign(handle, { messages: table });
}

/** The table that was passed to {@link messages} to make this export, if it was made by it. */
export function tableOf(exported: unknown): MessageTable | undefined {
  if (typeof exported !== 'function' || !Object.hasOwn(exported, 'messages')) return undefined;
  return (exported as MessagesHandler).messages;
}

function readJson(text: string): unknown {
  if (text === '') return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new HttpError(400, 'the message is not JSON', { cause: error });
  }
}

/** The message type in a path: its last segment. */
export function typeOf(path: string): string {
  const text = path.slice(path.lastIndexOf('/') + 1);
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** How replies, parts and errors are encoded in a response. */
export interface MessageForm {
  reply(value: unknown): Reply;
  /** The response for a handler that threw. */
  failure(error: unknown): Reply;
  /** The content type of a response that begins with parts. */
  readonly contentType: string;
  part(value: unknown): string | Uint8Array;
  lastReply(value: unknown): string | Uint8Array;
  lastFailure(error: unknown, log: Log): string | Uint8Array;
}

const NO_HEADERS: readonly string[] = [];

/** The format for HTTP clients: JSON lines. Errors reveal only what the handler meant for clients. */
const LINES: MessageForm = {
  reply: (value) => (value === undefined ? new Reply(204, KIND_NONE, NO_HEADERS, null) : new Reply(200, KIND_JSON, NO_HEADERS, toJson(withoutMove(value)))),
  failure: (error) => {
    throw error;
  },
  contentType: 'application/x-ndjson',
  part: (part) => `${toJson({ part })}\n`,
  lastReply: (reply) => `${toJson({ reply: withoutMove(reply) })}\n`,
  lastFailure: (error, log) => {
    const { body, failure } = errorReply(error, '');
    if (failure !== null) log.error(`a handler of messages failed: ${error instanceof Error ? (error.stack ?? String(error)) : String(error)}`);
    return `{"error":${body as string}}\n`;
  },
};

/** Maximum number of parts that wait to be sent. */
const PARTS_MAX = 4_096;

/** Calls a handler; returns the response, or a promise of it. */
export function callHandler(handler: MessageHandler, value: unknown, message: Message): unknown {
  let result: unknown;
  try {
    result = handler(value, message);
    if (!isPromise(result)) return message.reply(result);
  } catch (error) {
    return message.fail(error);
  }
  // The response begins with the first part, or else is the reply.
  return new Promise<Reply>((resolve, reject) => {
    message.onBegin = resolve;
    (result as PromiseLike<unknown>).then((reply) => message.reply(reply), (error: unknown) => message.fail(error)).then(resolve, reject);
  });
}

/** A message while its handler runs. */
export class Message implements MessageContext {
  readonly #ctx: Context;
  readonly #path: string;
  readonly #form: MessageForm;
  /** Parts that wait to be sent; `null` before the first part. */
  #parts: (string | Uint8Array)[] | null = null;
  #begin: ((answer: Reply) => void) | null = null;
  #answer: Reply | null = null;
  #isOver = false;
  /** Resolvers of pending `send()` promises; called when a part has been sent. */
  readonly #left: (() => void)[] = [];
  #wake: (() => void) | null = null;

  /** The last segment of `path` is the message type. */
  constructor(ctx: Context, path: string, form: MessageForm) {
    this.#ctx = ctx;
    this.#path = path;
    this.#form = form;
  }

  get type(): string {
    return typeOf(this.#path);
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
    if (this.#isOver) throw new Error('the message has been answered: nothing more can be sent');
    const parts = (this.#parts ??= []);
    if (parts.length >= PARTS_MAX) throw new RangeError(`${PARTS_MAX} parts wait to be sent: wait for the promise of send()`);
    this.#push(this.#form.part(value));
    const left = new Promise<void>((resolve) => this.#left.push(resolve));
    this.#begin?.(this.#stream());
    return left;
  }

  /** Receives the response if it begins before the handler returns. @internal */
  set onBegin(begin: (answer: Reply) => void) {
    this.#begin = begin;
    if (this.#parts !== null) begin(this.#stream());
  }

  /** Call when the handler has returned. @internal */
  reply(value: unknown): Reply {
    this.#isOver = true;
    if (this.#parts === null) {
      try {
        return this.#form.reply(value);
      } catch (error) {
        return this.#form.failure(error);
      }
    }
    try {
      this.#push(this.#form.lastReply(value));
    } catch (error) {
      this.#push(this.#form.lastFailure(error, this.log));
    }
    return this.#stream();
  }

  /** Call when the handler has thrown. @internal */
  fail(error: unknown): Reply {
    this.#isOver = true;
    if (this.#parts === null) return this.#form.failure(error);
    this.#push(this.#form.lastFailure(error, this.log));
    return this.#stream();
  }

  #push(part: string | Uint8Array): void {
    this.#parts!.push(part);
    this.#wake?.();
  }

  #stream(): Reply {
    return (this.#answer ??= new Reply(200, KIND_NONE, ['content-type', this.#form.contentType], this.#pieces()));
  }

  async *#pieces(): AsyncGenerator<string | Uint8Array> {
    const parts = this.#parts!;
    for (;;) {
      const next = parts.shift();
      if (next !== undefined) {
        yield next;
        this.#left.shift()?.();
      } else if (this.#isOver) {
        return;
      } else {
        await new Promise<void>((resolve) => (this.#wake = resolve));
        this.#wake = null;
      }
    }
  }
}
