/** The entry points of a script for the server: loads the handler and passes requests to it. */
import type { WorkerContext } from '../context.js';
import { abortError } from '../abort-reason.js';
import { loadHandler, type Hook, type RoutedHandler } from '../handler.js';
import { Html } from '../html.js';
import { isPromise } from '../outcome.js';
import { HttpError, Reply, errorReply, toReply } from '../reply.js';
import { requestOf, type WireRequest } from '../request.js';
import type { Source } from '../source.js';
import { hasOpenTransaction, rollBackOpenTransactions } from '../store/open-transactions.js';
import { abortSignal, contextOf, forgetSignal, logOf, setOwner } from './context.js';
import { host } from './host.js';
import { isolatePromises } from './promises.js';
import { closeStream, streamReply } from './stream.js';
import { dropOperations, step, wake } from './pending-operations.js';
import { installGlobals } from './web/install.js';

installGlobals();
isolatePromises();

const PLAIN = Object.prototype;
const HTML = Html.prototype;
const REPLY = Reply.prototype;
/** Return values of `host.plain`. */
const NOT_ANSWERED = 0;
const STILL_WAITS = 2;

let handle: RoutedHandler;
let owner: WorkerContext;
let stopHooks: readonly Hook[];

/** Loads the handler of a module and runs its start hooks. */
export async function load(module: object, file: string, name: string): Promise<void> {
  const loaded = await loadHandler(module, file);
  owner = { state: Object.create(null), worker: { id: 0, pool: name, pid: 0 }, log: logOf(0) };
  setOwner(owner);
  // Handlers other than our router get two arguments only, whatever they declare.
  handle = loaded.isRouter ? loaded.handle : (request, ctx) => loaded.handle(request, ctx);
  stopHooks = loaded.stop;
  for (const { head, kind, isWabur } of loaded.reads) host.declareRead(head.slice('GET'.length), kind, isWabur);
  for (const hook of loaded.start) await hook(owner);
}

/** Runs the stop hooks. */
export async function stop(): Promise<void> {
  for (const hook of stopHooks) await hook(owner);
}

/** Handles a request, given its concatenated method and path. */
export function run(call: number, methodAndPath: string): void {
  step.call = call;
  const request = requestOf(call as unknown as Source, methodAndPath);
  let value: unknown;
  try {
    value = handle(request, contextOf(call), methodAndPath);
    if (answerPlain(call, value)) return;
  } catch (error) {
    fail(call, request, error);
    return;
  }
  if (!isPromise(value)) {
    complete(call, request, value);
  } else {
    value.then(
      (result) => complete(call, request, result),
      (error: unknown) => fail(call, request, error),
    );
  }
}

/** Resumes a call whose wait has ended: with the named error, or with a value. */
export function resume(call: number, wait: number, error: string | null, value: unknown): void {
  step.call = call;
  wake(wait, error === null ? null : makeError(error, value as string), value);
}

function makeError(name: string, message: string): Error {
  return name === 'TypeError' ? new TypeError(message) : new DOMException(message, name);
}

/** Aborts a call whose client no longer waits for the response. */
export function abort(call: number, reason: number): void {
  step.call = call;
  const error = abortError(reason);
  abortSignal(call, error);
  closeStream(call);
  dropOperations(call, error);
  forgetSignal(call);
}

/** Ends the waits of a call that was answered. With `stillWaits`, this takes time proportional to the number of open calls. */
function endCall(call: number, stillWaits = true): void {
  if (stillWaits) dropOperations(call);
  forgetSignal(call);
}

/** Answers with text, JSON, HTML or a reply with a text, which most handlers return; false for any other value. */
function answerPlain(call: number, value: unknown): boolean {
  const answered = host.plain(call, value, PLAIN, HTML, REPLY);
  if (answered === NOT_ANSWERED) return false;
  endCall(call, answered === STILL_WAITS);
  return true;
}

function complete(call: number, request: WireRequest, value: unknown): void {
  if (hasOpenTransaction()) {
    rollBackLeftOpen(request);
    const error = new HttpError(500, 'the handler left a transaction open, which was rolled back');
    send(call, request, errorReply(error, request.id), true);
    return;
  }
  let reply: Reply;
  try {
    if (answerPlain(call, value)) return;
    reply = toReply(value);
  } catch (error) {
    fail(call, request, error);
    return;
  }
  send(call, request, reply);
}

/** Answers a call whose handler threw, or returned a value that cannot be sent. */
function fail(call: number, request: WireRequest, error: unknown): void {
  if (hasOpenTransaction()) rollBackLeftOpen(request);
  // The client has gone, and that is why the handler failed.
  if (!host.isOpen(call)) return;
  let reply: Reply;
  try {
    reply = errorReply(error, request.id);
  } catch (second) {
    // The members of an HttpError could not be written as JSON.
    reply = errorReply(second, request.id);
  }
  send(call, request, reply);
}

function rollBackLeftOpen(request: WireRequest): void {
  rollBackOpenTransactions();
  const { method, path, route } = request;
  owner.log.warn(`the handler of ${method} ${path} left a transaction open, which was rolled back`, { route });
}

function send(call: number, request: WireRequest, reply: Reply, isFault = reply.failure !== null): void {
  const { status, kind, headers, body, failure } = reply;
  if (failure !== null) report(call, `${request.method} ${request.path} failed`, failure.error);
  if (body === null || typeof body === 'string' || body instanceof Uint8Array) {
    endCall(call, host.answer(call, status, kind, isFault, headers.length === 0 ? null : headers, body));
    return;
  }
  const reportBroken = (error: unknown) => report(call, `the response to ${request.path} broke off`, error);
  streamReply(call, request.method === 'HEAD', reply, body[Symbol.asyncIterator](), reportBroken).then(
    () => endCall(call),
    (error: unknown) => fail(call, request, error),
  );
}

function report(call: number, what: string, error: unknown): void {
  const detail = error instanceof Error ? `${error.name}: ${error.message}\n${error.stack ?? ''}` : String(error);
  logOf(call).error(`${what}: ${detail}`);
}
