/** What a pool knows of a type of messages: its requests' beginning, how long it takes, how often it runs. */
import { END, REQUEST, HEADER_BYTES, requestPayload, type Bytes } from '../wire.js';
import { Histogram } from './histogram.js';
import { Ring } from './ring.js';
import { HELD } from './task.js';

/** The weight of one message in the moving average is 1 over this. */
const AVERAGE_OVER = 16;
/** What a message costs its worker beside its handler, in milliseconds. */
const OVERHEAD_MS = 0.003;

const NO_BYTES = new Uint8Array(0);

export class MessageType {
  readonly name: string;
  /** Header and payload of a REQUEST of this type up to its body; length, job, slot and time left are still to be written. */
  readonly prefix: Bytes;
  /** Most that run at a time. */
  readonly limit: number;
  /** Those that are sent. */
  running = 0;
  /** Those that wait for the limit, oldest first. */
  readonly held = new Ring(HELD);
  /** What one takes a worker, in milliseconds; 0 before the first answer. */
  expectedMs = 0;
  answered = 0;
  failed = 0;
  readonly run = new Histogram();
  readonly wait = new Histogram();

  constructor(name: string, limit: number) {
    this.name = name;
    this.limit = limit;
    const payload = requestPayload({
      remainingMs: 0,
      method: 'POST',
      path: `/${encodeURIComponent(name)}`,
      query: '',
      route: '',
      params: [],
      headers: [],
      peer: '',
      body: NO_BYTES,
    });
    const prefix = Buffer.alloc(HEADER_BYTES + payload.length) as Bytes;
    prefix[4] = REQUEST;
    prefix[5] = END;
    prefix.set(payload, HEADER_BYTES);
    this.prefix = prefix;
  }

  /** A handler has run for so long. */
  learn(ms: number): void {
    const took = ms + OVERHEAD_MS;
    this.expectedMs = this.expectedMs === 0 ? took : this.expectedMs + (took - this.expectedMs) / AVERAGE_OVER;
  }
}

