/**
 * One worker of a pool: its jobs by slot, the frames written to it and received from it. Decisions that involve other workers are the
 * dispatcher's.
 */
import {
  ABORT,
  BODY,
  DRAIN,
  END,
  FAILED,
  FAULT,
  FRAME_PAYLOAD_MAX,
  HEADER_BYTES,
  HELLO,
  INIT,
  LOG,
  PROTOCOL,
  READY,
  RESET,
  RESPONSE,
  RESPONSE_TABLE_BYTES,
  WINDOW,
  frame,
  readU32,
  writeU32,
  type Bytes,
} from '../wire.js';
import { TRANSFER_MARK, type Transfer } from '../transfer.js';
import type { Encoded } from '../message.js';
import { isParts } from '../parts.js';
import type { WorkerEnd } from './errors.js';
import type { Host, HostEvents } from './host.js';
import { Incoming, headersOf, outcomeOf, type Outcome } from './incoming.js';
import type { Settings } from './options.js';
import { startProcess } from './process.js';
import { Ring } from './ring.js';
import { HELD, SENT, type Task } from './task.js';
import { startThread } from './thread.js';

/** Phases of a worker, passed in this order only. */
export const STARTING = 0;
export const READY_PHASE = 1;
/** Finishes what it runs, then ends. */
export const DRAINING = 2;
/** Has been told to end, or was killed. */
export const ENDING = 3;
export const ENDED = 4;
export type Phase = typeof STARTING | typeof READY_PHASE | typeof DRAINING | typeof ENDING | typeof ENDED;

/** Maximum work queued in a worker's inbox, in milliseconds. */
const CREDIT_WORK_MS = 1;
/** Size of the buffer in which frames are collected before they are written. */
const SLAB_BYTES = 131_072;
/**
 * After this many messages, frames are written without waiting for the end of the event loop's turn: the worker starts while others are
 * still being submitted.
 */
const GATHERED_MAX = 16;
/** Longer bodies are written separately. */
const GATHERED_BODY_MAX = 16_384;
/** Longer bodies are sent in frames as the worker asks for them. */
const INLINE_BODY_MAX = 524_288;
const BODY_FRAME_MAX = 262_144;
const WINDOW_BYTES = 1_048_576;
const STDERR_LINES_MAX = 20;
/** Reasons of ABORT frames. */
export const REASON_GONE = 1;
export const REASON_OVERDUE = 2;

/** Events that a worker reports to the dispatcher. */
export interface PoolWorkerEvents {
  ready(worker: PoolWorker): void;
  /** A job was answered, and the worker is done with it. */
  answered(worker: PoolWorker, task: Task, outcome: Outcome, micros: number): void;
  /** All frames received so far have been reported. */
  drained(worker: PoolWorker): void;
  dirty(worker: PoolWorker): void;
  log(worker: PoolWorker, line: unknown): void;
  line(worker: PoolWorker, text: string): void;
  ended(worker: PoolWorker): void;
}

/** A job that has been settled for its caller while the worker may still run it. */
interface Abandoned {
  readonly number: number;
  readonly since: number;
}

export class PoolWorker implements HostEvents {
  readonly id: number;
  readonly generation: number;
  /** The set of handlers the worker has loaded; each `reload` starts a new edition. */
  readonly edition: number;
  readonly host: Host;
  readonly started: number;
  phase: Phase = STARTING;
  readyAt = 0;
  /** When the current phase began. */
  since: number;
  /** When the worker last answered, or became ready. */
  lastAnswer = 0;
  inFlight = 0;
  /** Expected duration of all jobs that the worker has, in milliseconds. */
  loadMs = 0;
  /** Whether a handler has been running for long; then nothing is queued behind it. */
  isStalled = false;
  /** Whether the worker is to be replaced. */
  isOutgoing = false;
  /** Messages that wait for this worker only, oldest first. */
  readonly ownTasks = new Ring(HELD);
  messages = 0;
  errors = 0;
  busyMs = 0;
  /** Answers to jobs that were already settled, and invalid frames. */
  late = 0;
  readonly stderr: string[] = [];
  /** The error reported by the worker if it failed to start. */
  startFailure: { readonly message: string; readonly stack?: string } | null = null;
  exitCode: number | null = null;
  signal: string | null = null;
  readonly abandoned = new Map<number, Abandoned>();
  readonly #settings: Settings;
  readonly #events: PoolWorkerEvents;
  readonly #load: readonly string[];
  readonly #tasks: (Task | undefined)[] = [];
  readonly #free: number[] = [];
  #number = 0;
  #slab: Bytes = Buffer.allocUnsafeSlow(SLAB_BYTES) as Bytes;
  #from = 0;
  #to = 0;
  /** Number of messages between `#from` and `#to`. */
  #gathered = 0;
  #isDirty = false;
  #partial: Bytes | null = null;

  constructor(id: number, generation: number, edition: number, settings: Settings, events: PoolWorkerEvents, now: number, load: readonly string[]) {
    this.id = id;
    this.generation = generation;
    this.edition = edition;
    this.started = this.since = now;
    this.#settings = settings;
    this.#events = events;
    this.#load = load;
    this.host = settings.kind === 'thread' ? startThread(settings, generation, this) : startProcess(settings, generation, this);
  }

  /** Whether the worker can take a job expected to last `expectedMs` (0: unknown). */
  hasRoom(expectedMs: number): boolean {
    // A worker that is to be replaced and still runs an abandoned job may be ended at any time, so it gets nothing new.
    if (this.phase !== READY_PHASE || (this.isOutgoing && this.abandoned.size > 0)) return false;
    const { concurrency, credit } = this.#settings;
    if (this.inFlight < concurrency) return true;
    if (this.host.page === null || this.isStalled || expectedMs === 0) return false;
    return this.inFlight < concurrency + credit && this.loadMs + expectedMs <= CREDIT_WORK_MS;
  }

  move(phase: Phase, now: number): void {
    if (phase <= this.phase) return;
    this.phase = phase;
    this.since = now;
  }

  // Sending jobs.

  /** Sends a job; `left` is the time until its deadline in milliseconds, 0 without one. */
  send(task: Task, now: number, left: number): void {
    const slot = this.#free.pop() ?? this.#tasks.length;
    const number = (this.#number = (this.#number % 0xffff_fffe) + 1);
    this.#tasks[slot] = task;
    this.inFlight++;
    task.state = SENT;
    task.assignee = this;
    task.worker = this.id;
    task.slot = slot;
    task.number = number;
    task.sent = now;
    task.began = 0;
    task.expectedMs = task.type.expectedMs;
    this.loadMs += task.expectedMs;
    this.host.page?.offer(slot, number);
    this.#request(task, left);
  }

  #request(task: Task, left: number): void {
    const { body, transfer, type: { prefix } } = task;
    if (transfer !== null) {
      this.#requestTransfer(task, transfer, left);
      return;
    }
    // A UTF-16 code unit takes at most three bytes in UTF-8.
    const bytesMax = typeof body === 'string' ? body.length * 3 : body.length;
    if (bytesMax > GATHERED_BODY_MAX) {
      this.#requestLong(task, left);
      return;
    }
    this.#reserve(prefix.length + bytesMax);
    const slab = this.#slab;
    const at = this.#to;
    slab.set(prefix, at);
    let end = at + prefix.length;
    if (typeof body === 'string') end += slab.utf8Write(body, end, bytesMax);
    else {
      slab.set(body, end);
      end += body.length;
    }
    this.#to = end;
    writeRequestHead(slab, at, end - at - HEADER_BYTES, this.generation, task, left);
    if (++this.#gathered === GATHERED_MAX) this.flush();
    else this.#markDirty();
  }

  #requestTransfer(task: Task, transfer: Transfer, left: number): void {
    const { type: { prefix } } = task;
    const bytes = new Uint8Array(prefix.length + 1);
    bytes.set(prefix);
    bytes[prefix.length] = TRANSFER_MARK;
    writeRequestHead(bytes as Bytes, 0, bytes.length - HEADER_BYTES, this.generation, task, left);
    this.flush();
    this.host.postTransfer!(bytes, transfer);
  }

  #requestLong(task: Task, left: number): void {
    const { type: { prefix } } = task;
    const body = (task.bytes ??= bytesOf(task.body));
    const isInline = body.length <= INLINE_BODY_MAX;
    const head = Buffer.from(prefix) as Bytes;
    writeRequestHead(head, 0, prefix.length - HEADER_BYTES + (isInline ? body.length : 0), this.generation, task, left);
    if (!isInline) head[5] = 0;
    task.bodySent = 0;
    this.flush();
    this.host.write(head);
    if (isInline) this.host.write(body);
  }

  /** Sends the next `granted` bytes of a long body. */
  #grant(task: Task, granted: number): void {
    const body = (task.bytes ??= bytesOf(task.body));
    const until = Math.min(body.length, task.bodySent + granted);
    this.flush();
    while (task.bodySent < until) {
      const to = Math.min(until, task.bodySent + BODY_FRAME_MAX);
      const flags = to === body.length ? END : 0;
      this.host.write(frame(BODY, flags, this.generation, task.number, task.slot, body.subarray(task.bodySent, to)));
      task.bodySent = to;
    }
  }

  /** Revokes the jobs that the worker has not begun, oldest first. Without shared memory, all count as begun. */
  takeBack(): Task[] {
    const { page } = this.host;
    if (page === null) return [];
    const found: Task[] = [];
    for (const task of this.#tasks) if (task !== undefined && task.transfer === null && page.revoke(task.slot, task.number)) found.push(task);
    found.sort((a, b) => a.sent - b.sent || a.number - b.number);
    for (const task of found) this.release(task);
    return found;
  }

  /** The worker's jobs, in no particular order. */
  *tasks(): Generator<Task> {
    for (const task of this.#tasks) if (task !== undefined) yield task;
  }

  /** Whether the worker has begun a job. Without shared memory this is unknown, and the answer is yes. */
  hasBegun(task: Task): boolean {
    const { page } = this.host;
    return page === null || page.isClaimed(task.slot, task.number);
  }

  /** Removes a job and frees its slot. */
  release(task: Task): void {
    this.#tasks[task.slot] = undefined;
    this.#free.push(task.slot);
    task.assignee = null;
    task.incoming = null;
    this.#uncount(task);
  }

  /** Removes a job that was settled for its caller while the worker may still run it: its slot stays taken until the worker answers. */
  abandon(task: Task, reason: number, now: number): void {
    this.#tasks[task.slot] = undefined;
    this.abandoned.set(task.slot, { number: task.number, since: now });
    this.loadMs -= task.expectedMs;
    task.assignee = null;
    task.incoming = null;
    this.#control(frame(ABORT, 0, this.generation, task.number, task.slot, Uint8Array.of(reason)));
  }

  #uncount(task: Task): void {
    this.inFlight--;
    this.loadMs = this.inFlight === 0 ? 0 : this.loadMs - task.expectedMs;
  }

  // Life cycle of the worker.

  /** Tells the worker to finish what it runs and end. */
  drain(now: number): void {
    if (this.phase >= DRAINING) return;
    this.move(DRAINING, now);
    this.#control(frame(DRAIN, 0, this.generation, 0, 0));
  }

  terminate(now: number): void {
    if (this.phase >= ENDING) return;
    this.move(ENDING, now);
    this.host.terminate();
  }

  get end(): WorkerEnd {
    const { id: worker, exitCode, signal, stderr } = this;
    return { worker, pid: this.host.pid, exitCode, signal, stderr: [...stderr] };
  }

  #init(): void {
    const { name, handler, sources, data, start, concurrency } = this.#settings;
    const init = {
      protocol: PROTOCOL,
      pool: name,
      worker: this.id,
      generation: this.generation,
      handler,
      start,
      concurrency,
      window_bytes: WINDOW_BYTES,
      inline_body_bytes: INLINE_BODY_MAX,
      library: true,
      ...(sources === null ? {} : { messages: sources, load: this.#load }),
      ...(data === null ? {} : { data }),
    };
    this.#control(frame(INIT, 0, this.generation, 0, 0, JSON.stringify(init)));
  }

  // Writing frames.

  #reserve(bytes: number): void {
    if (this.#slab.length - this.#to >= bytes) return;
    this.flush();
    this.#slab = Buffer.allocUnsafeSlow(Math.max(SLAB_BYTES, bytes)) as Bytes;
    this.#from = this.#to = 0;
  }

  #markDirty(): void {
    if (this.#isDirty) return;
    this.#isDirty = true;
    this.#events.dirty(this);
  }

  #control(bytes: Bytes): void {
    this.flush();
    this.host.write(bytes);
  }

  /** Writes the collected frames. */
  flush(): void {
    this.#isDirty = false;
    this.#gathered = 0;
    if (this.#to === this.#from) return;
    this.host.write(this.#slab.subarray(this.#from, this.#to));
    this.#from = this.#to;
  }

  // Reading frames.

  rung(): void {
    this.lastAnswer = performance.now();
    this.takeOutbox();
    this.#events.drained(this);
  }

  /** Takes all frames from the outbox. */
  takeOutbox(): void {
    if (this.host.page?.drain(this.#receive) === false) this.#killBroken('its outbox contains an invalid frame');
  }

  received(bytes: Bytes): void {
    this.lastAnswer = performance.now();
    // Frames in the outbox were written before those on the link.
    this.takeOutbox();
    let all = bytes;
    if (this.#partial !== null) all = Buffer.concat([this.#partial, bytes]) as Bytes;
    let at = 0;
    while (all.length - at >= HEADER_BYTES) {
      const length = readU32(all, at);
      if (length > FRAME_PAYLOAD_MAX) {
        this.#killBroken(`it sent a frame of ${length} bytes (at most ${FRAME_PAYLOAD_MAX})`);
        return;
      }
      const start = at + HEADER_BYTES;
      if (start + length > all.length) break;
      this.#receive(all[at + 4]!, all[at + 5]!, all[at + 6]! | (all[at + 7]! << 8), readU32(all, at + 8), readU32(all, at + 12), all, start, start + length);
      at = start + length;
    }
    this.#partial = at < all.length ? (all.subarray(at) as Bytes) : null;
    this.#events.drained(this);
  }

  #killBroken(why: string): void {
    this.line(`forebay: the worker is ended: ${why}`);
    this.host.kill();
  }

  readonly #receive = (type: number, flags: number, generation: number, number: number, slot: number, bytes: Bytes, at: number, end: number): void => {
    if (generation !== this.generation) {
      this.late++;
      return;
    }
    if (number === 0) {
      this.#link(type, bytes, at, end);
      return;
    }
    if (type === LOG) {
      this.#log(bytes, at, end);
      return;
    }
    const task = this.#tasks[slot];
    if (task === undefined || task.number !== number) {
      this.#stray(type, flags, number, slot);
      return;
    }
    if (type === RESPONSE) this.#response(task, flags, bytes, at, end);
    else if (type === BODY) this.#receiveBody(task, flags, bytes, at, end);
    else if (type === WINDOW && end - at === 4) this.#grant(task, readU32(bytes, at));
    else if (type === RESET) this.#answered(task, { broken: 'the worker aborted the response' }, 0);
    else this.late++;
  };

  /** Handles a frame of a job that was settled already: the last frame of an abandoned job frees its slot. */
  #stray(type: number, flags: number, number: number, slot: number): void {
    this.late++;
    const isLast = type === RESET || ((type === RESPONSE || type === BODY) && (flags & END) !== 0);
    if (!isLast || this.abandoned.get(slot)?.number !== number) return;
    this.abandoned.delete(slot);
    this.#free.push(slot);
    this.inFlight--;
    if (this.inFlight === 0) this.loadMs = 0;
  }

  #link(type: number, bytes: Bytes, at: number, end: number): void {
    if (type === HELLO) {
      this.#init();
    } else if (type === READY) {
      if (this.phase === STARTING) this.#events.ready(this);
    } else if (type === FAILED) {
      this.startFailure = readJson(bytes, at, end) as { message: string; stack?: string };
    } else if (type === LOG) {
      this.#log(bytes, at, end);
    }
  }

  #log(bytes: Bytes, at: number, end: number): void {
    this.#events.log(this, readJson(bytes, at, end));
  }

  #response(task: Task, flags: number, bytes: Bytes, at: number, end: number): void {
    if (end - at < RESPONSE_TABLE_BYTES) {
      this.#killBroken('it sent a RESPONSE that is too short');
      return;
    }
    const status = bytes[at]! | (bytes[at + 1]! << 8);
    const kind = bytes[at + 2]!;
    const micros = readU32(bytes, at + 4);
    const headersEnd = at + RESPONSE_TABLE_BYTES + readU32(bytes, at + 8);
    if (headersEnd > end) {
      this.#killBroken('it sent a RESPONSE whose headers are cut off');
      return;
    }
    const headers = headersEnd === at + RESPONSE_TABLE_BYTES ? NO_HEADERS : headersOf(bytes, at + RESPONSE_TABLE_BYTES, headersEnd);
    if ((flags & END) !== 0 && !isParts(headers)) {
      const isText = bytes[headersEnd] !== 0xff && kind !== 3;
      // The value may refer to these bytes, and the memory of the outbox is reused.
      const body = isText ? bytes : (Buffer.from(bytes.subarray(headersEnd, end)) as Bytes);
      const outcome = isText ? outcomeOf(status, kind, headers, bytes, headersEnd, end) : outcomeOf(status, kind, headers, body, 0, body.length);
      if ((flags & FAULT) !== 0) this.errors++;
      this.#answered(task, outcome, micros);
      return;
    }
    const { number, slot } = task;
    const incoming = new Incoming(status, kind, headers, (part) => task.options.onPart?.(part, task));
    task.incoming = incoming;
    incoming.push(Buffer.from(bytes.subarray(headersEnd, end)) as Bytes);
    // A callback for a part may have aborted the message.
    if (task.incoming !== incoming) this.#stray(RESPONSE, flags, number, slot);
    else if ((flags & END) !== 0) this.#answered(task, incoming.end(), micros);
  }

  #receiveBody(task: Task, flags: number, bytes: Bytes, at: number, end: number): void {
    const { incoming, number, slot } = task;
    if (incoming === null) {
      this.late++;
      return;
    }
    incoming.push(bytes.subarray(at, end) as Bytes);
    if (task.incoming !== incoming) {
      this.#stray(BODY, flags, number, slot);
      return;
    }
    if ((flags & END) !== 0) {
      this.#answered(task, incoming.end(), (performance.now() - (task.began || task.sent)) * 1000);
      return;
    }
    const { options: { whenReadyForMore } } = task;
    const readyForMore = whenReadyForMore?.() ?? null;
    if (readyForMore === null) this.#allow(task, end - at);
    else void readyForMore.then(() => this.#allow(task, end - at));
  }

  /** Allows the worker to send `bytes` more of a response. */
  #allow(task: Task, bytes: number): void {
    if (this.#tasks[task.slot] !== task) return;
    const payload = Buffer.allocUnsafe(4);
    writeU32(payload, 0, bytes);
    this.#control(frame(WINDOW, 0, this.generation, task.number, task.slot, payload));
  }

  #answered(task: Task, outcome: Outcome, micros: number): void {
    this.#tasks[task.slot] = undefined;
    this.#free.push(task.slot);
    this.#uncount(task);
    this.messages++;
    this.busyMs += micros / 1000;
    task.incoming = null;
    this.#events.answered(this, task, outcome, micros);
  }

  line(text: string): void {
    this.stderr.push(text);
    if (this.stderr.length > STDERR_LINES_MAX) this.stderr.shift();
    this.#events.line(this, text);
  }

  ended(exitCode: number | null, signal: string | null): void {
    this.exitCode = exitCode;
    this.signal = signal;
    this.takeOutbox();
    this.#events.ended(this);
  }
}

const NO_HEADERS: readonly string[] = [];

function bytesOf(body: Encoded): Bytes {
  return typeof body === 'string' ? (Buffer.from(body) as Bytes) : (body as Bytes);
}

function writeRequestHead(bytes: Bytes, at: number, length: number, generation: number, { number, slot }: Task, left: number): void {
  writeU32(bytes, at, length);
  bytes[at + 6] = generation;
  bytes[at + 7] = generation >>> 8;
  writeU32(bytes, at + 8, number);
  writeU32(bytes, at + 12, slot);
  if (left !== 0) writeU32(bytes, at + HEADER_BYTES, left);
}

function readJson(bytes: Bytes, at: number, end: number): unknown {
  try {
    return JSON.parse(bytes.utf8Slice(at, end)) as unknown;
  } catch {
    return { message: bytes.utf8Slice(at, end) };
  }
}
