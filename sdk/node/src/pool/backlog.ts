/** The backlog: counts waiting messages, whichever list they are in, and enforces the bounds of the queue. */
import { QueueFullError } from './errors.js';
import type { Settings, Size } from './options.js';
import type { Task } from './task.js';
import { ExpiryLists } from './expiry.js';

/** The backlog is crowded above this share of either bound, and roomy again below a quarter of both. */
const CROWDED = 0.5;
const ROOMY = 0.25;

/** Events that the backlog reports. */
export interface BacklogEvents {
  crowded(): void;
  roomy(): void;
}

export class Backlog {
  /** Waiting messages, and the size of their bodies. */
  count = 0;
  bytes = 0;
  isCrowded = false;
  /** When waiting messages expire. */
  readonly expiry = new ExpiryLists();
  readonly #settings: Settings;
  readonly #events: BacklogEvents;
  #max: number;

  constructor(settings: Settings, size: Size, events: BacklogEvents) {
    this.#settings = settings;
    this.#events = events;
    this.#max = queueMaxOf(settings, size);
  }

  /** Adapts the bound to a new size of the pool, which matters for `queueMax: 'auto'`. */
  resize(size: Size): void {
    this.#max = queueMaxOf(this.#settings, size);
  }

  /** Why a message cannot be queued; `null` if it can. `taken` is how many messages the workers now being started will take at once. */
  refusal(task: Task, taken: number): QueueFullError | null {
    const { name, queueBytesMax } = this.#settings;
    if (this.count >= this.#max + taken) {
      return new QueueFullError('queue_full', `queue of ${JSON.stringify(name)} is full (queueMax ${this.#max})`);
    }
    if (this.count > 0 && this.bytes + task.body.length > queueBytesMax) {
      const text = `queue of ${JSON.stringify(name)} has no room for ${task.body.length} bytes more (queueBytesMax ${queueBytesMax})`;
      return new QueueFullError('queue_bytes_full', text);
    }
    return null;
  }

  /** Counts a message that starts to wait. */
  enter(task: Task): void {
    this.count++;
    this.bytes += task.body.length;
    this.expiry.add(task);
    if (this.isCrowded || (this.count <= this.#max * CROWDED && this.bytes <= this.#settings.queueBytesMax * CROWDED)) return;
    this.isCrowded = true;
    this.#events.crowded();
  }

  /** Counts a message that no longer waits. */
  leave(task: Task): void {
    this.count--;
    this.bytes -= task.body.length;
    this.expiry.remove(task);
    if (!this.isCrowded || this.count > this.#max * ROOMY || this.bytes > this.#settings.queueBytesMax * ROOMY) return;
    this.isCrowded = false;
    this.#events.roomy();
  }
}

function queueMaxOf({ queueMax }: Settings, { max }: Size): number {
  return queueMax === 'auto' ? max ** 2 : queueMax;
}
