/** One message of QOper8, from the queue to whoever has sent it. */
import type { Encoded } from '../message.js';
import type { PoolError } from '../pool/errors.js';
import { Task, type Wishes } from '../pool/task.js';
import type { MessageType } from '../pool/types.js';
import { throwLater } from './listeners.js';

/** A message: `type` says which handler it is for. */
export interface QOper8Message {
  readonly type: string;
  [name: string]: any;
}

/** Called with the reply, or an object with `error`, and the id of the worker that has answered. */
export type Callback = (reply: any, workerId: number | undefined) => unknown;

/** What becomes of messages. */
export interface DeliveryOwner {
  replied(delivery: Delivery, reply: unknown): void;
  failed(delivery: Delivery, error: PoolError): void;
}

export class Delivery extends Task {
  readonly owner: DeliveryOwner;
  readonly message: QOper8Message;
  /** `null` for a message that nobody waits for. */
  readonly callback: Callback | null;
  /** Whether the callback is called with parts, too. */
  readonly takesParts: boolean;
  /** The id that QBackup knows it by. */
  id = 0;
  /** Whether replies that are objects get the member `qoper8`, as in QOper8. */
  isMarked = true;

  constructor(
    owner: DeliveryOwner,
    message: QOper8Message,
    callback: Callback | null,
    takesParts: boolean,
    type: MessageType,
    body: Encoded,
    wishes: Wishes,
    now: number,
  ) {
    super(type, body, wishes, now, replied, failed);
    this.owner = owner;
    this.message = message;
    this.callback = callback;
    this.takesParts = takesParts;
  }
}

// Both are called on their task, so that no function need be made for each message.

function replied(this: Delivery, reply: unknown): void {
  this.owner.replied(this, reply);
}

function failed(this: Delivery, error: unknown): void {
  this.owner.failed(this, error as PoolError);
}

/** Calls callbacks in the order of their replies, once whoever has brought these is done: a callback may do anything. */
export class Outbox {
  /** Each callback, its reply and the id of the worker, in turns. */
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
