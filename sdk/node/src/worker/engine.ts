/**
 * The worker's loop: receives frames, calls handlers, sends responses.
 *
 * Under load, everything happens within one read of the link: each REQUEST is claimed, its handler called, and its response written to the
 * outbox before the next frame is looked at; the doorbell rings last. Only responses that wait for a shared commit are sent later, when all
 * handlers have run. Requests that cannot run yet (a handler's promise is pending, or a response is not sent yet) stay in `#inbox`,
 * unclaimed, so that the server may give them to another worker.
 */
import type { Log, WorkerContext } from '../context.js';
import { transferOf } from '../transfer.js';
import type { Handler, Hook } from '../handler.js';
import { isPlain, isPromise } from '../outcome.js';
import { HttpError, Reply, errorReply, isEventStream, toJson, toReply } from '../reply.js';
import { messageSource, type Message, type Source } from '../source.js';
import { hasOpenTransaction, rollBackOpenTransactions } from '../store/open-transactions.js';
import { TunnelUpgrade, Upgrade } from '../upgrade.js';
import { WebSocketUpgrade, setPublish, type WebSocketMessage } from '../websocket.js';
import {
  ABORT,
  BODY,
  CLOSE,
  CONNECTION,
  CONNECTION_BYTES,
  DETACHED,
  DETACHED_SLOT,
  DRAIN,
  END,
  FAULT,
  FRAME_PAYLOAD_MAX,
  HEADER_BYTES,
  INIT,
  KIND_JSON,
  KIND_TEXT,
  LOG,
  MESSAGE,
  PROFILE,
  PROFILED,
  PUBLISH,
  REQUEST,
  RESET,
  RESPONSE,
  RESPONSE_TABLE_BYTES,
  RETURN,
  TRAILERS,
  UPGRADE,
  WEBSOCKET,
  WINDOW,
  frame,
  pairsBytes,
  readPairs,
  readU32,
  responseFrame,
  writePairs,
  writeU32,
  type Bytes,
} from '../wire.js';
import type { Calls } from './calls.js';
import { Job, type JobOwner } from './job.js';
import type { Link, LinkEvents } from './link.js';
import type { HandlerSource } from './messages.js';
import type { Page } from './page.js';
import { report } from './report.js';
import { LOST_DETAIL, SharedCommits, lostResponse, type CompleteResponse } from './shared-commits.js';
import { SERVICE_RESTART, Socket, publishPayload, readClose, textFlag, type SocketOwner } from './socket.js';
import { sendPieces, streamReply, type FrameSink } from './stream.js';

/** Log lines are dropped, and counted, while this many bytes wait to be sent. */
const LOG_BACKLOG_MAX = 1_048_576;
/** Longer log lines are cut. */
const LOG_LINE_MAX = 65_536;

/** Longest response body, in characters, passed in one piece to a link without frames. */
const ANSWER_LENGTH_MAX = 65_536;

const NO_HEADERS: readonly string[] = [];
const NO_BYTES = new Uint8Array(0);

/** Members of the INIT frame that workers use. */
export interface Init {
  readonly pool: string;
  readonly worker: number;
  readonly handler: string | null;
  readonly start: string | null;
  readonly concurrency: number;
  /** Requests of a worker whose handler waits. */
  readonly concurrency_max?: number;
  readonly window_bytes: number;
  /** Whether the pool runs inside a program; then errors are reported in full to the sender of a message. */
  readonly library?: boolean;
  /** Message handlers by type; if set, there is no request handler. */
  readonly messages?: Readonly<Record<string, HandlerSource>>;
  /** Message types whose handlers are loaded before the worker is ready. */
  readonly load?: readonly string[];
  /** The `data` option of the pool, as text of {@link encode} in base64. */
  readonly data?: string;
}

/** A REQUEST that is not claimed yet. */
interface QueuedRequest {
  readonly source: Source;
  /** Whether it contains the whole body. */
  readonly whole: boolean;
  readonly number: number;
  readonly slot: number;
  readonly received: number;
}

export class Engine implements LinkEvents, JobOwner, FrameSink, SocketOwner {
  /** Set once the link is open, before the first frame arrives. */
  link!: Link;
  /** Calls of handlers to the server; `null` if they cannot make any. */
  calls: Calls | null = null;
  readonly #generation: number;
  readonly #page: Page | null;
  readonly #onInit: (init: Init) => void;
  readonly #onEnd: (status: number) => void;
  #context: WorkerContext | null = null;
  #handle: Handler | null = null;
  #stopHooks: readonly Hook[] = [];
  #concurrency = 1;
  #window = 0;
  /** Number of jobs that are claimed and not answered. */
  #running = 0;
  /** Claimed jobs that did not finish synchronously, by slot. */
  readonly #jobs = new Map<number, Job>();
  /** Jobs that have left their slots, by number. */
  readonly #detached = new Map<number, Job>();
  /** The job that is believed to have a transaction open across an `await`. */
  #writer: Job | null = null;
  /** Shared commits of handlers, and the responses that wait for them. */
  readonly #commits: SharedCommits;
  #inbox: QueuedRequest[] = [];
  /** The last reading of the clock: before a batch, and whenever a handler has returned. */
  #now = 0;
  #ringing = false;
  #draining = false;
  #stopping = false;
  #hasEnded = false;
  #idle: (() => void)[] = [];
  #droppedLogs = 0;

  constructor(generation: number, page: Page | null, onInit: (init: Init) => void, onEnd: (status: number) => void) {
    this.#generation = generation;
    this.#page = page;
    this.#onInit = onInit;
    this.#onEnd = onEnd;
    this.#commits = new SharedCommits({
      send: (answer) => void this.#put(answer),
      settled: () => this.#page?.ring(),
      openJobs: () => this.#jobs.values(),
    });
  }

  // Start and end of the worker.

  /** Starts to process requests, once everything is loaded. */
  serve(init: Init, context: WorkerContext, handle: Handler, stopHooks: readonly Hook[]): void {
    this.#concurrency = init.concurrency;
    this.#window = init.window_bytes;
    this.#context = context;
    this.#handle = handle;
    this.#stopHooks = stopHooks;
    setPublish((room, message) => this.publish(room, message));
    this.#stopIfDone();
  }

  /** Finishes claimed jobs, runs the stop hooks and exits with status 0. */
  drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    // Without a page, the server counts every job that it has sent as started and gives it to no other worker.
    if (this.#page !== null) this.#inbox = [];
    if (this.#handle !== null) this.#stopIfDone();
  }

  #stopIfDone(): void {
    if (!this.#draining || this.#stopping || this.#running > 0 || this.#inbox.length > 0) return;
    this.#commits.settle();
    this.#stopping = true;
    this.#endDetached();
    void this.#stop();
  }

  /** Ends event streams and WebSockets: their clients connect again, to another worker. */
  #endDetached(): void {
    for (const job of this.#detached.values()) {
      job.isEnding = true;
      if (job.socket !== null) job.socket.close(SERVICE_RESTART, 'the worker ends');
      else job.wake?.();
    }
  }

  async #stop(): Promise<void> {
    let status = 0;
    for (const hook of this.#stopHooks) {
      try {
        await hook(this.context);
      } catch (error) {
        status = 1;
        report('a stop hook failed', error);
      }
    }
    this.endWhenSent(status);
  }

  /** Exits as soon as everything has been sent. */
  endWhenSent(status: number): void {
    if (!this.#commits.settle()) status ||= 1;
    this.#page?.ring();
    void this.idle().then(() => this.#end(status));
  }

  #end(status: number): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#onEnd(status);
  }

  // Receiving frames.

  frames(bytes: Bytes, at: number, end: number): number {
    const received = (this.#now = performance.now());
    while (end - at >= HEADER_BYTES) {
      const length = readU32(bytes, at);
      if (length > FRAME_PAYLOAD_MAX) {
        process.stderr.write(`forebay: the server sent a frame of ${length} bytes (at most ${FRAME_PAYLOAD_MAX})\n`);
        this.#end(1);
        return end;
      }
      const start = at + HEADER_BYTES;
      const next = start + length;
      if (next > end) break;
      if ((bytes[at + 6]! | (bytes[at + 7]! << 8)) === this.#generation) {
        const type = bytes[at + 4]!;
        const flags = bytes[at + 5]!;
        const number = readU32(bytes, at + 8);
        const slot = readU32(bytes, at + 12);
        if (type !== REQUEST) this.#control(type, flags, number, slot, bytes, start, next);
        else {
          const end = (flags & CONNECTION) === 0 ? next : next - CONNECTION_BYTES;
          const connection = end === next ? 0 : readU32(bytes, end);
          this.#request({ bytes, at: start, end, more: null, connection }, (flags & END) !== 0, number, slot, received);
        }
      }
      at = next;
    }
    this.#page?.ring();
    return at;
  }

  /** Handles a request that arrived as a message; `number` must be unique among open requests. */
  message(number: number, message: Message): void {
    const received = (this.#now = performance.now());
    this.#request(messageSource(message), true, number, number, received);
  }

  #request(source: Source, whole: boolean, number: number, slot: number, received: number): void {
    if (this.#hasRoom && this.#inbox.length === 0) this.#run(source, whole, number, slot, received);
    else if (!this.#draining || this.#page === null) this.#inbox.push({ source, whole, number, slot, received });
  }

  #control(type: number, flags: number, number: number, slot: number, bytes: Bytes, at: number, end: number): void {
    if (type === INIT) {
      this.#onInit(JSON.parse(bytes.utf8Slice(at, end)) as Init);
    } else if (type === DRAIN) {
      this.drain();
    } else if (type === PROFILE) {
      void this.#profile((JSON.parse(bytes.utf8Slice(at, end)) as { ms: number }).ms);
    } else if (type === RETURN) {
      this.calls?.handleReturn(flags, bytes, at, end);
    } else {
      let job = this.#jobs.get(slot);
      // The server may not know yet that a job has left its slot.
      if (job?.number !== number) job = this.#detached.get(number);
      if (job === undefined) return;
      if (type === MESSAGE) job.socket?.receive(bytes.subarray(at, end) as Bytes, flags);
      else if (type === CLOSE) this.#closed(job, bytes.subarray(at, end) as Bytes);
      else if (type === BODY) job.receive(bytes.subarray(at, end), (flags & END) !== 0);
      else if (type === TRAILERS) job.trailers = readPairs(bytes, at, end, 'latin1');
      else if (type === WINDOW) job.grow(readU32(bytes, at));
      else if (type === ABORT) job.abort(bytes[at]!);
      else if (type === RESET) job.failBody(new Error('the client ended its request early'));
    }
  }

  async #profile(ms: number): Promise<void> {
    // Loaded on demand: few workers are ever profiled.
    const { endProfile, profile } = await import('./profile.js');
    if (ms === 0) return endProfile();
    this.link.write(frame(PROFILED, 0, this.#generation, 0, 0, await profile(ms)));
  }

  drained(): void {
    if (this.link.backlog > 0) return;
    this.#now = performance.now();
    for (const resolve of this.#idle.splice(0)) resolve();
    if (this.#droppedLogs > 0) {
      const dropped = this.#droppedLogs;
      this.#droppedLogs = 0;
      this.#log(null, 'warn', `${dropped} log lines were dropped: the server took them too slowly`, undefined);
    }
    this.#pump();
  }

  closed(): void {
    this.#end(0);
  }

  // Running jobs.

  /** Whether another job may be claimed: fewer than `concurrency` are running, and no response waits in our own memory. */
  get #hasRoom(): boolean {
    return this.#running < this.#concurrency && this.link.backlog === 0 && (!this.#draining || this.#page === null);
  }

  /** Starts waiting requests while there is room. */
  #pump(): void {
    while (this.#inbox.length > 0 && this.#hasRoom) {
      const { source, whole, number, slot, received } = this.#inbox.shift()!;
      this.#run(source, whole, number, slot, received);
    }
    this.#ringSoon();
  }

  #run(source: Source, whole: boolean, number: number, slot: number, received: number): void {
    const page = this.#page;
    if (page !== null) {
      if (!page.claim(number, slot)) return;
      page.ringIfLate(this.#now);
    }
    const job = new Job(this, source, whole, number, slot, received, this.#now, this.#window);
    if (this.#commits.areDeferred && !this.#commits.joins(job, this.#now)) this.#commits.settle();
    this.#running++;
    // A transaction that is already open belongs to another job, and does not concern this one unless it runs asynchronously.
    const wasOpen = hasOpenTransaction();
    if (!wasOpen) this.#writer = job;
    let value: unknown;
    let promise: Promise<unknown> | null = null;
    try {
      value = this.calls === null ? this.#handle!(job.request, job) : this.calls.within(job, this.#handle!, job.request, job);
      // Reading or calling `then` runs code of the handler, which may throw.
      if (isPromise(value)) promise = Promise.resolve(value);
    } catch (error) {
      if (wasOpen) this.#fail(job, error);
      else this.#completeFailed(job, error);
      return;
    }
    if (promise !== null) this.#await(job, promise);
    else if (wasOpen) this.#answer(job, value);
    else this.#complete(job, value);
  }

  #await(job: Job, promise: Promise<unknown>): void {
    this.#jobs.set(job.slot, job);
    if (!hasOpenTransaction()) this.#writer = null;
    this.#now = performance.now();
    promise.then(
      (value) => this.#complete(job, value),
      (error: unknown) => this.#completeFailed(job, error),
    );
  }

  #complete(job: Job, value: unknown): void {
    if (hasOpenTransaction() && this.#rollBack(job)) {
      const error = new HttpError(500, 'the handler left a transaction open, which was rolled back');
      this.#send(job, errorReply(error, job.request.id), FAULT);
    } else {
      this.#answer(job, value);
    }
  }

  #completeFailed(job: Job, error: unknown): void {
    if (hasOpenTransaction()) this.#rollBack(job);
    this.#fail(job, error);
  }

  /**
   * Rolls back a transaction that a handler left open, because it would block all writers; `false` if it belongs to another job. A
   * transaction that began after an `await` is attributed to the job that ends next.
   */
  #rollBack(job: Job): boolean {
    if (this.#writer !== null && this.#writer !== job) return false;
    rollBackOpenTransactions();
    const { method, path, route } = job.request;
    this.#log(job, 'warn', `the handler of ${method} ${path} left a transaction open, which was rolled back`, { route });
    return true;
  }

  #answer(job: Job, value: unknown): void {
    if (value instanceof Upgrade && this.link.answer === undefined) {
      this.#upgrade(job, value);
      return;
    }
    if (typeof value === 'string') {
      this.#respond(job, 200, KIND_TEXT, NO_HEADERS, value, 0);
      return;
    }
    let body: string | null = null;
    let reply: Reply | null = null;
    try {
      if (isPlain(value)) body = toJson(value);
      else reply = toReply(value);
    } catch (error) {
      this.#fail(job, error);
      return;
    }
    if (body !== null) this.#respond(job, 200, KIND_JSON, NO_HEADERS, body, 0);
    else this.#send(job, reply!);
  }

  /** Answers a job whose handler threw, or returned a value that cannot be sent. */
  #fail(job: Job, error: unknown): void {
    const { id } = job.request;
    let reply: Reply;
    try {
      reply = errorReply(error, id);
    } catch (second) {
      // The members of an HttpError could not be written as JSON.
      reply = errorReply(second, id);
    }
    this.#send(job, reply);
  }

  #send(job: Job, reply: Reply, flags = reply.failure === null ? 0 : FAULT): void {
    const { body } = reply;
    if (reply.failure !== null && reply.failure.isReported !== true) {
      const { method, path, id } = job.request;
      report(`${method} ${path} failed (request ${id})`, reply.failure.error);
    }
    if (body === null || typeof body === 'string' || body instanceof Uint8Array) {
      this.#respond(job, reply.status, reply.kind, reply.headers, body ?? '', flags);
    } else {
      this.#stream(job, reply, body);
    }
  }

  #stream(job: Job, reply: Reply, body: AsyncIterable<unknown>): void {
    let pieces: AsyncIterator<unknown>;
    try {
      pieces = body[Symbol.asyncIterator]();
    } catch (error) {
      this.#fail(job, error);
      return;
    }
    this.#jobs.set(job.slot, job);
    const label = `the response to ${job.request.path} (request ${job.request.id}) broke off`;
    const send = () => streamReply(job, reply, pieces, this, (error) => report(label, error));
    // The iterator of the pieces is code of the handler too, so its calls belong to the job.
    const sent = this.calls === null ? send() : this.calls.within(job, send);
    sent.catch((error: unknown) => this.#fail(job, error));
  }

  /** Sends a complete response, after any shared commit, and ends the job. */
  #respond(
    job: Job,
    status: number,
    kind: number,
    headers: readonly string[],
    body: string | Uint8Array,
    flags: number,
  ): void {
    const now = (this.#now = performance.now());
    if (!this.#commits.takes(body.length + pairsBytes(headers)) && !this.#commits.settle()) job.isLost = true;
    let answer: CompleteResponse = { job, status, kind, headers, body, flags, micros: microseconds(now - job.started) };
    if (job.isLost) answer = lostResponse(answer);
    if (this.#commits.areDeferred) {
      this.#commits.keep(answer);
    } else if (!this.#put(answer)) {
      const sized = new Reply(status, kind, [...headers, 'content-length', String(Buffer.byteLength(body))], null);
      this.#stream(job, sized, once(typeof body === 'string' ? Buffer.from(body) : body));
      return;
    }
    this.#endJob(job);
  }

  /** Writes a complete response, to the outbox if it fits; `false` if it is too long for a frame. */
  #put({ job, status, kind, headers, body, flags, micros }: CompleteResponse): boolean {
    const { number, slot } = job;
    const transfer = typeof body === 'string' ? undefined : transferOf(body);
    if (transfer !== undefined) {
      this.link.postTransfer!(responseFrame(RESPONSE, flags | END, this.#generation, number, slot, status, kind, micros, headers, body as Uint8Array), transfer);
      return true;
    }
    if (this.#page?.put(flags, number, slot, status, kind, micros, headers, body, this.#now) === true) return true;
    const { link } = this;
    // Longer responses are streamed, so that their size is checked piece by piece.
    if (link.answer !== undefined && body.length <= ANSWER_LENGTH_MAX) {
      link.answer(number, status, kind, headers, body);
      return true;
    }
    const bytes = typeof body === 'string' ? Buffer.from(body) : body;
    if (bytes.length > FRAME_PAYLOAD_MAX - RESPONSE_TABLE_BYTES - pairsBytes(headers)) return false;
    this.link.write(responseFrame(RESPONSE, flags | END, this.#generation, number, slot, status, kind, micros, headers, bytes));
    return true;
  }

  /** Ends a job whose last frame has been written, or waits for a commit. */
  #endJob(job: Job): void {
    job.end();
    if (job.isDetached) {
      this.#detached.delete(job.number);
      if (hasOpenTransaction()) this.#rollBack(job);
      return;
    }
    this.#running--;
    this.#commits.learn(job);
    if (this.#writer === job && !hasOpenTransaction()) this.#writer = null;
    // A job outside of the table was answered synchronously, and the loop in `frames` continues by itself.
    if (this.#jobs.get(job.slot) !== job) {
      this.#stopIfDone();
      return;
    }
    this.#jobs.delete(job.slot);
    // The streamed body may have left a transaction open.
    if (hasOpenTransaction()) this.#rollBack(job);
    if (this.#writer === job) this.#writer = null;
    this.#pump();
    this.#stopIfDone();
  }

  /** Rings after the pending microtasks, which may produce more responses. */
  #ringSoon(): void {
    if (this.#page === null || this.#ringing) return;
    this.#ringing = true;
    process.nextTick(() => {
      this.#ringing = false;
      this.#page!.ring();
    });
  }

  // The interface for jobs and streams.

  get context(): WorkerContext {
    return this.#context!;
  }

  grant(job: Job, bytes: number): void {
    const payload = Buffer.allocUnsafe(4);
    writeU32(payload, 0, bytes);
    this.link.write(frame(WINDOW, 0, this.#generation, job.number, job.slot, payload));
  }

  head(job: Job, reply: Reply, body: Uint8Array, end: boolean): void {
    if (end) {
      this.#respond(job, reply.status, reply.kind, reply.headers, body, 0);
      return;
    }
    this.#commits.settle();
    if (job.isLost) throw new HttpError(500, LOST_DETAIL);
    const micros = microseconds(performance.now() - job.started);
    const { status, kind, headers } = reply;
    const detaches = isEventStream(headers) && this.link.answer === undefined;
    const flags = detaches ? DETACHED : 0;
    this.link.write(responseFrame(RESPONSE, flags, this.#generation, job.number, job.slot, status, kind, micros, headers, body));
    if (detaches) this.#detach(job);
  }

  body(job: Job, bytes: Uint8Array, end: boolean): void {
    this.#commits.settle();
    if (job.isLost) throw new HttpError(500, LOST_DETAIL);
    this.link.write(frame(BODY, end ? END : 0, this.#generation, job.number, job.slot, bytes));
    if (end) this.#endJob(job);
  }

  trailers(job: Job, fields: readonly string[]): void {
    const block = Buffer.allocUnsafe(pairsBytes(fields)) as Bytes;
    writePairs(block, 0, fields);
    this.link.write(frame(TRAILERS, 0, this.#generation, job.number, job.slot, block));
  }

  reset(job: Job): void {
    // The server has forgotten a detached job that it has aborted.
    if (!job.isDetached || !job.aborted) this.link.write(frame(RESET, 0, this.#generation, job.number, job.slot));
    this.#endJob(job);
  }

  // The interface for upgraded connections.

  /** Takes over the connection of a job. */
  #upgrade(job: Job, upgrade: Upgrade): void {
    const { request } = job;
    const isWebSocket = upgrade instanceof WebSocketUpgrade;
    if (isWebSocket && request.headers.get('upgrade')?.toLowerCase() !== 'websocket') {
      this.#fail(job, new HttpError(400, 'this is the address of a WebSocket: open one'));
      return;
    }
    this.#commits.settle();
    if (job.isLost) {
      this.#fail(job, new HttpError(500, LOST_DETAIL));
      return;
    }
    const micros = microseconds(performance.now() - job.started);
    const flags = isWebSocket ? WEBSOCKET : 0;
    this.link.write(responseFrame(UPGRADE, flags, this.#generation, job.number, job.slot, 101, 0, micros, upgrade.headers, NO_BYTES));
    if (isWebSocket) {
      job.socket = new Socket(this, job, upgrade.handlers, upgrade.data);
      this.#detach(job);
      job.socket.open();
    } else if (upgrade instanceof TunnelUpgrade) {
      this.#detach(job);
      const pieces = upgrade.pieces[Symbol.asyncIterator]();
      void sendPieces(job, [], pieces.next(), pieces, this, (error) => this.reportSocket(job, error));
      upgrade.start(job);
    }
  }

  /** Frees the slot of a job whose response may last: it no longer counts as running. */
  #detach(job: Job): void {
    this.#jobs.delete(job.slot);
    job.detach();
    this.#detached.set(job.number, job);
    this.#running--;
    this.#commits.learn(job);
    if (this.#writer === job && !hasOpenTransaction()) this.#writer = null;
    this.#pump();
    this.#stopIfDone();
  }

  #closed(job: Job, payload: Bytes): void {
    const { code, reason } = readClose(payload);
    job.socket?.closed(code, reason);
  }

  publish(room: string, message: WebSocketMessage | ArrayBuffer): void {
    this.#commits.settle();
    this.link.write(frame(PUBLISH, textFlag(message), this.#generation, 0, 0, publishPayload(room, message)));
  }

  socketFrame(job: Job, type: number, flags: number, payload: Uint8Array): void {
    // A commit that the client is told of must not be undone.
    this.#commits.settle();
    this.link.write(frame(type, flags, this.#generation, job.number, DETACHED_SLOT, payload));
  }

  within<T>(job: Job, run: () => T): T {
    let result: T | undefined;
    try {
      return (result = this.calls === null ? run() : (this.calls.within(job, run) as T));
    } finally {
      if (hasOpenTransaction() && !isPromise(result)) this.#rollBack(job);
    }
  }

  socketClosed(job: Job): void {
    this.#endJob(job);
  }

  reportSocket(job: Job, error: unknown): void {
    report(`the connection of ${job.request.path} failed (request ${job.request.id})`, error);
  }

  idle(): Promise<void> {
    if (this.link.backlog === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  logOf(job: Job | null): Log {
    return {
      debug: (message, fields) => this.#log(job, 'debug', message, fields),
      info: (message, fields) => this.#log(job, 'info', message, fields),
      warn: (message, fields) => this.#log(job, 'warn', message, fields),
      error: (message, fields) => this.#log(job, 'error', message, fields),
    };
  }

  #log(job: Job | null, level: string, message: string, fields: Readonly<Record<string, unknown>> | undefined): void {
    if (this.link.backlog > LOG_BACKLOG_MAX) {
      this.#droppedLogs++;
      return;
    }
    const text = String(message).slice(0, LOG_LINE_MAX);
    const request = job?.request.id;
    let line: string;
    try {
      line = JSON.stringify({ level, message: text, fields, request });
      if (line.length > LOG_LINE_MAX * 2) throw new RangeError(`they take ${line.length} characters`);
    } catch (error) {
      line = JSON.stringify({ level, message: text, fields: { fields_dropped: (error as Error).message }, request });
    }
    this.link.write(frame(LOG, 0, this.#generation, job?.number ?? 0, job?.slot ?? 0, line));
  }
}

function microseconds(milliseconds: number): number {
  return Math.min(Math.round(milliseconds * 1000), 0xffff_ffff);
}

async function* once(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  yield bytes;
}
