/** A worker that speaks a message dialect: reads messages, passes requests to the worker's loop, and makes calls to the server. */
import type { WorkerContext } from '../context.js';
import type { LoadedHandler } from '../handler.js';
import type { Bytes } from '../wire.js';
import { Engine, type Init } from '../worker/engine.js';
import { environment, handleSignals, start } from '../worker/lifecycle.js';
import { report } from '../worker/report.js';
import { setCaller } from './call.js';
import type { Dialect } from './dialect.js';
import { Gateway, WINDOW_BYTES } from './gateway.js';
import { openPipes, type Pipes } from './pipes.js';

const LINE_END = 10;

/** The server's id of a request; everything else about it has been passed on. */
type Id = string | number;

export class Messages {
  readonly #dialect: Dialect;
  readonly #pipes: Pipes;
  readonly #engine: Engine;
  /** The server's ids of open requests, by our own number. */
  readonly #ids = new Map<number, Id>();
  #numbers = 0;
  /** The start of an incomplete message. */
  #partial: Bytes[] = [];
  /** Messages waiting for the handler to be loaded, or for a blocking call to return. */
  #inbox: string[] = [];
  #isReady = false;
  #isBusy = false;
  /** Text to be written at the end of this turn of the event loop. */
  #outgoing = '';
  #calls = 0;
  #hasEnded = false;

  constructor(dialect: Dialect, prepared: Promise<void>, load: () => Promise<LoadedHandler>) {
    this.#dialect = dialect;
    const generation = Number(environment('FOREBAY_GENERATION'));
    this.#engine = new Engine(generation, null, () => {}, (status) => this.#end(status));
    const bytesMax = Number(environment('FOREBAY_MESSAGE_BYTES_MAX'));
    this.#engine.link = new Gateway(this.#engine, generation, bytesMax, {
      answer: (number, outcome) => this.#respond(number, (id) => dialect.answer(id, outcome)),
      failed: (number, why) => this.#respond(number, (id) => dialect.failed(id, why)),
      log: (line) => this.#write(dialect.log(line)),
    });
    this.#pipes = openPipes({
      bytes: (bytes) => {
        this.#receive(bytes);
        this.#work();
      },
      ended: () => this.#ended(),
    });
    handleSignals(() => this.#engine.drain());
    setCaller((text, timeoutMs) => this.#call(text, timeoutMs));
    void this.#begin(prepared, load);
  }

  async #begin(prepared: Promise<void>, load: () => Promise<LoadedHandler>): Promise<void> {
    const worker = { id: Number(environment('FOREBAY_WORKER')), pool: environment('FOREBAY_POOL'), pid: process.pid };
    const init: Init = {
      pool: worker.pool,
      worker: worker.id,
      handler: null,
      start: null,
      concurrency: Number(environment('FOREBAY_CONCURRENCY')),
      window_bytes: WINDOW_BYTES,
    };
    const context: WorkerContext = { state: Object.create(null), worker, log: this.#engine.logOf(null) };
    try {
      await prepared;
      const { handle, stop } = await start(process.env['FOREBAY_START'] ?? null, load, context);
      this.#engine.serve(init, context, handle, stop);
    } catch (error) {
      report('the worker cannot start', error);
      this.#engine.endWhenSent(1);
      return;
    }
    this.#isReady = true;
    this.#work();
    if (this.#hasEnded) this.#engine.drain();
  }

  #ended(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    if (this.#isReady) this.#engine.drain();
  }

  #end(status: number): void {
    this.#flush();
    process.exit(status);
  }

  // Receiving messages.

  /** Adds complete messages to the inbox. */
  #receive(bytes: Bytes): void {
    const end = bytes.lastIndexOf(LINE_END);
    if (end >= 0) {
      // Decoding everything up to a line end is safe: in UTF-8, its byte is never part of another character.
      const last = bytes.subarray(0, end) as Bytes;
      const whole = this.#partial.length === 0 ? last : (Buffer.concat([...this.#partial, last]) as Bytes);
      this.#partial = [];
      for (const line of whole.utf8Slice(0, whole.length).split('\n')) this.#inbox.push(line);
    }
    if (end + 1 < bytes.length) this.#partial.push(bytes.subarray(end + 1) as Bytes);
  }

  /** Processes the inbox, unless a handler is in the middle of a blocking call. */
  #work(): void {
    if (!this.#isReady || this.#isBusy) return;
    this.#isBusy = true;
    try {
      for (let next = this.#inbox.shift(); next !== undefined; next = this.#inbox.shift()) this.#take(next);
    } finally {
      this.#isBusy = false;
    }
    this.#flush();
  }

  #take(text: string): void {
    if (text.trim() === '') return;
    const message = this.#dialect.read(JSON.parse(text) as Record<string, unknown>, text);
    switch (message.is) {
      case 'request': {
        this.#numbers = this.#numbers === 0xffff_ffff ? 1 : this.#numbers + 1;
        this.#ids.set(this.#numbers, message.id);
        this.#engine.message(this.#numbers, message.request);
        break;
      }
      case 'refused':
        this.#write(this.#dialect.failed(message.id, message.why));
        break;
      case 'reply':
        this.#write(message.text);
        break;
      case 'stop':
        if (message.now) process.exit(0);
        this.#ended();
        break;
      // A late result, or one that belongs to no call.
      case 'result':
      case 'nothing':
        break;
    }
  }

  // Sending messages.

  #respond(number: number, text: (id: Id) => string): void {
    const id = this.#ids.get(number);
    if (id === undefined) return;
    this.#ids.delete(number);
    this.#write(text(id));
  }

  /** Queues text, to be written at the end of this turn of the event loop. */
  #write(text: string): void {
    if (this.#outgoing === '' && !this.#isBusy) process.nextTick(() => this.#flush());
    this.#outgoing += text;
  }

  #flush(): void {
    if (this.#outgoing === '') return;
    const text = this.#outgoing;
    this.#outgoing = '';
    this.#pipes.write(Buffer.from(text));
  }

  // Blocking calls.

  /** Makes a call and blocks until its result arrives. Other messages that arrive meanwhile are processed afterwards. */
  #call(text: string, timeoutMs: number): string {
    const id = String(++this.#calls);
    const until = performance.now() + timeoutMs;
    this.#outgoing += this.#dialect.call(id, text);
    this.#flush();
    for (;;) {
      const bytes = this.#pipes.readNow(until);
      if (bytes === null) return failure(`Timed out waiting for ${id}.`);
      if (bytes.length === 0) {
        this.#ended();
        return failure('the server has gone');
      }
      const before = this.#inbox.length;
      this.#receive(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length) as Bytes);
      for (let index = before; index < this.#inbox.length; index++) {
        const text = this.#inbox[index]!;
        if (!text.includes(id)) continue;
        const message = this.#dialect.read(JSON.parse(text) as Record<string, unknown>, text);
        if (message.is === 'result' && String(message.call) === id) {
          this.#inbox.splice(index, 1);
          if (this.#inbox.length > 0) setImmediate(() => this.#work());
          return this.#dialect.result(id, text) ?? JSON.stringify(message.result);
        }
      }
    }
  }
}

function failure(error: string): string {
  return JSON.stringify({ code: -1, error });
}
