/** One QOper8 message, from the queue until its sender has the reply. */
import type { Encoded } from '../message.js';
import type { PoolError } from '../pool/errors.js';
import { Task, type TaskOptions } from '../pool/task.js';
import type { MessageType } from '../pool/types.js';
import { throwLater } from './listeners.js';

/** A message; `type` selects the handler. */
export interface QOper8Message {
  readonly type: string;
  [name: string]: any;
}

/** Receives the reply, or an object with `error`, and the id of the worker that answered. */
export type Callback = (reply: any, workerId: number | undefined) => unknown;

/** Receives the outcomes of deliveries. */
export interface DeliveryOwner {
  replied(delivery: Delivery, reply: unknown): void;
  failed(delivery: Delivery, error: PoolError): void;
}

export class Delivery extends Task {
  readonly owner: DeliveryOwner;
  readonly message: QOper8Message;
  /** `null` if the sender does not want the reply. */
  readonly callback: Callback | null;
  /** Whether parts are passed to the callback as well. */
  readonly takesParts: boolean;
  /** The message's id in the queue backup. */
  id = 0;
  /** Whether a member `qoper8` is added to replies that are objects, as in QOper8. */
  isMarked = true;

  constructor(
    owner: DeliveryOwner,
    message: QOper8Message,
    callback: Callback | null,
    takesParts: boolean,
    type: MessageType,
    body: Encoded,
    options: TaskOptions,
    now: number,
  ) {
    super(type, body, options, now, replied, failed);
    this.owner = owner;
    this.message = message;
    this.callback = callback;
    this.takesParts = takesParts;
  }
}

// Methods that are called on their task, so that no closure is allocated per message.

function replied(this: Delivery, reply: unknown): void {
  this.owner.replied(this, reply);
}

function failed(this: Delivery, error: unknown): void {
  this.owner.failed(this, error as PoolError);
}

/**
 * Calls callbacks in the order of their replies, in a microtask: a callback may do anything, so it must not run inside of the pool's own
 * code.
 */
export class Outbox {
  /** Triples of callback, reply and worker id. */
  #callbacks: unknown[] = [];
  readonly #flush = (): void => this.#callAll();

  give(callback: Callback, reply: unknown, workerId: number | undefined): void {
    if (this.#callbacks.push(callback, reply, workerId) === 3) queueMicrotask(this.#flush);
  }

  #callAll(): void {
    const callbacks = this.#callbacks;
    this.#callbacks = [];
    for (let at = 0; at < callbacks.length; at += 3) {
      try {
        (callbacks[at] as Callback)(callbacks[at + 1], callbacks[at + 2] as number | undefined);
      } catch (error) {
        throwLater(error);
      }
    }
  }
}
