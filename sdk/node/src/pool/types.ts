/** A message type: the prepared start of its requests, its expected duration, and its concurrency limit. */
import { END, REQUEST, HEADER_BYTES, requestPayload, type Bytes } from '../wire.js';
import { Histogram } from './histogram.js';
import { Ring } from './ring.js';
import { HELD } from './task.js';

/** One message has the weight 1/AVERAGE_OVER in the moving average. */
const AVERAGE_OVER = 16;
/** Cost of a message for its worker apart from the handler, in milliseconds. */
const OVERHEAD_MS = 0.003;

const NO_BYTES = new Uint8Array(0);

export class MessageType {
  readonly name: string;
  /** Header and payload of a REQUEST frame of this type up to its body; length, job number, slot and deadline are filled in per message. */
  readonly prefix: Bytes;
  /** Maximum number of running messages. */
  readonly limit: number;
  /** Messages that are with workers. */
  running = 0;
  /** Messages that wait because of the limit, oldest first. */
  readonly held = new Ring(HELD);
  /** Moving average of a message's duration in milliseconds; 0 before the first answer. */
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
      id: '',
      body: NO_BYTES,
    });
    const prefix = Buffer.alloc(HEADER_BYTES + payload.length) as Bytes;
    prefix[4] = REQUEST;
    prefix[5] = END;
    prefix.set(payload, HEADER_BYTES);
    this.prefix = prefix;
  }

  /** Adds the run time of a handler to the average. */
  learn(ms: number): void {
    const took = ms + OVERHEAD_MS;
    this.expectedMs = this.expectedMs === 0 ? took : this.expectedMs + (took - this.expectedMs) / AVERAGE_OVER;
  }
}

