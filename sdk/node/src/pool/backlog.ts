/** What waits, wherever it lies: how much that is, and that it does not become more than it may. */
import { QueueFullError } from './errors.js';
import type { Settings, Size } from './options.js';
import type { Task } from './task.js';
import { Waits } from './waits.js';

/** It is called crowded from this part of its bounds on, and roomy again below a quarter of them. */
const CROWDED = 0.5;
const ROOMY = 0.25;

/** What it tells. */
export interface BacklogEvents {
  crowded(): void;
  roomy(): void;
}

export class Backlog {
  /** Messages that wait, and what they take. */
  count = 0;
  bytes = 0;
  isCrowded = false;
  /** Until when they may. */
  readonly waits = new Waits();
  readonly #settings: Settings;
  readonly #events: BacklogEvents;
  #max: number;

  constructor(settings: Settings, size: Size, events: BacklogEvents) {
    this.#settings = settings;
    this.#events = events;
    this.#max = queueMaxOf(settings, size);
  }

  /** The pool has another size now. */
  resize(size: Size): void {
    this.#max = queueMaxOf(this.#settings, size);
  }

  /** Why a message may not wait, beside so many that are as good as taken by workers that are being started; `null` when it may. */
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

  /** A message waits from now on. */
  enter(task: Task): void {
    this.count++;
    this.bytes += task.body.length;
    this.waits.add(task);
    if (this.isCrowded || (this.count <= this.#max * CROWDED && this.bytes <= this.#settings.queueBytesMax * CROWDED)) return;
    this.isCrowded = true;
    this.#events.crowded();
  }

  /** A message waits no more. */
  leave(task: Task): void {
    this.count--;
    this.bytes -= task.body.length;
    this.waits.remove(task);
    if (!this.isCrowded || this.count > this.#max * ROOMY || this.bytes > this.#settings.queueBytesMax * ROOMY) return;
    this.isCrowded = false;
    this.#events.roomy();
  }
}

function queueMaxOf({ queueMax }: Settings, { max }: Size): number {
  return queueMax === 'auto' ? max ** 2 : queueMax;
}
