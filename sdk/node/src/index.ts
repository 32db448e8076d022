/**
 * The SDK of Forebay handlers. A handler file exports a router:
 *
 * ```js
 * import { router } from 'forebay';
 *
 * const app = router();
 * app.get('/users/:id', (request) => ({ id: request.params.id }));
 * export default app;
 * ```
 *
 * A handler without a router is a {@link Handler}: `(request: HttpRequest, ctx: Context) => Answer`. The web's `Request` and `Response` are
 * global: a {@link FetchHandler} gets a `Request`, and every handler may return a `Response`, or a {@link Reply} of {@link json}, {@link text} or
 * {@link reply}.
 *
 * @module
 */
export { router, type ParamsOf, type RouteHandler, type Router } from './router.js';
export {
  HttpError,
  Reply,
  json,
  reply,
  text,
  type Answer,
  type HeadersLike,
  type HttpErrorInit,
  type ReplyInit,
} from './reply.js';
export { html, unsafeHtml, type Html } from './html.js';
export { sse, type ServerSentEvent, type SseInit } from './sse.js';
export {
  broadcast,
  websocket,
  type ServerWebSocket,
  type WebSocketHandlers,
  type WebSocketInit,
  type WebSocketMessage,
  type WebSocketUpgrade,
} from './websocket.js';
export type { HttpRequest, User } from './request.js';
export type { RequestHeaders } from './headers.js';
export type { UploadedFile, UploadedForm } from './form.js';
export type { Context, Log, WorkerContext, WorkerInfo, WorkerState } from './context.js';
export type { FetchContext } from './fetch.js';
export type { FetchHandler, Handler, Hook } from './handler.js';
export { messages, type MessageContext, type MessageHandler, type MessageTable, type MessagesHandler } from './messages.js';
export { sleep, type SleepOptions } from './sleep.js';
export { StoreError, store, type Store, type StoreErrorCode, type StoreNode } from './store/index.js';
