/**
 * Messages of a pool inside a program: dispatched by type, which is the path of the request, and answered in the pool's own format.
 */
import { pathToFileURL } from 'node:url';
import type { Context } from '../context.js';
import { encodeThrown } from '../failure.js';
import { transferBody, moveOf, withoutMove } from '../transfer.js';
import type { LoadedHandler } from '../handler.js';
import { decode, encode, type Encoded } from '../message.js';
import { Message, callHandler, typeOf, type MessageForm, type MessageHandler, type MessageTable } from '../messages.js';
import { FAILURE, PART, PARTS_TYPE, REPLY, part } from '../parts.js';
import { Reply } from '../reply.js';
import type { HttpRequest, WireRequest } from '../request.js';
import { KIND_JSON, type Bytes } from '../wire.js';

/** The location of a handler: an export of a module, or the body of a function of `message` and `ctx`. */
export type HandlerSource =
  | { readonly file: string; readonly export: string | null }
  | { readonly source: string };

const NO_HEADERS: readonly string[] = [];

/** The format for the program around the pool, which gets full errors. */
const POOL_FORM: MessageForm = {
  reply: (value) => new Reply(200, KIND_JSON, NO_HEADERS, bodyOf(value)),
  failure: (error) => new Reply(500, KIND_JSON, NO_HEADERS, encodeThrown(error), { error, isReported: true }),
  contentType: PARTS_TYPE,
  part: (value) => part(PART, encode(value)),
  lastReply: (value) => part(REPLY, encode(withoutMove(value))),
  lastFailure: (error) => part(FAILURE, encodeThrown(error)),
};

function bodyOf(value: unknown): Encoded {
  const moved = moveOf(value);
  return moved === null ? encode(value) : (transferBody(moved) ?? encode(moved.value));
}

/**
 * Makes a request handler that dispatches to the message handlers of these modules. Each is loaded with the first message of its type,
 * those of the types in `first` before any message.
 */
export function loadMessages(sources: Readonly<Record<string, HandlerSource>>, first: readonly string[]): LoadedHandler {
  return dispatcherOf((type) => loadSource(Object.hasOwn(sources, type) ? sources[type] : fileOf(type), type), first);
}

/** Like `loadMessages`, for functions that are already loaded. */
export function answerMessages(table: MessageTable): LoadedHandler {
  return dispatcherOf(async (type) => {
    if (Object.hasOwn(table, type)) return table[type]!;
    throw new TypeError(`no handler for messages of type ${JSON.stringify(type)}; there are ${Object.keys(table).join(', ')}`);
  });
}

function dispatcherOf(find: (type: string) => Promise<MessageHandler>, first: readonly string[] = []): LoadedHandler {
  /** Loaded handlers by concatenated method and path. */
  const handlers = new Map<string, MessageHandler>();
  const loading = new Map<string, Promise<MessageHandler>>();

  function handle(request: HttpRequest, ctx: Context): unknown {
    const { methodAndPath } = request as WireRequest;
    const message = new Message(ctx, methodAndPath, POOL_FORM);
    const handler = handlers.get(methodAndPath);
    if (handler !== undefined) return answer(handler, request as WireRequest, message);
    return load(methodAndPath).then(
      // The message may have been aborted while its handler was being loaded.
      (loaded) => (ctx.signal.aborted ? POOL_FORM.failure(ctx.signal.reason) : answer(loaded, request as WireRequest, message)),
      POOL_FORM.failure,
    );
  }

  function load(head: string): Promise<MessageHandler> {
    let promise = loading.get(head);
    if (promise === undefined) {
      promise = find(typeOf(head));
      loading.set(head, promise);
      // If loading fails, the next message tries again.
      promise.then((handler) => handlers.set(head, handler)).catch(() => {}).finally(() => loading.delete(head));
    }
    return promise;
  }

  const loadFirst = async () => {
    for (const type of first) await load(`POST/${encodeURIComponent(type)}`);
  };
  return { handle: handle as LoadedHandler['handle'], isRouter: false, waits: false, reads: [], start: [loadFirst], stop: [] };
}

function answer(handler: MessageHandler, request: WireRequest, message: Message): unknown {
  const body = request.bytesNow() as Bytes | undefined;
  if (body === undefined) {
    return request.bytes().then((bytes) => callHandler(handler, decode(bytes as Bytes, 0, bytes.length), message)).catch(POOL_FORM.failure);
  }
  let value: unknown;
  try {
    value = decode(body, 0, body.length);
  } catch (error) {
    return POOL_FORM.failure(error);
  }
  return callHandler(handler, value, message);
}

/** Parses a type that names a file and possibly an export: `file:///app/resize.mjs#crop`. */
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
