/** The interface between the driver and the pools that it compares. */
import type { Plan } from './plan.js';

/** The message sent to a worker, the same for all contenders. */
export interface BenchMessage {
  readonly type: 'benchmark';
  /** Counts from 1. */
  readonly messageNo: number;
  /** When it was submitted, in Unix milliseconds. */
  readonly time: number;
  readonly payload?: string;
}

/** A message in flight. Tickets are reused, so that a contender need not create functions for each message. */
export interface Ticket {
  /** A small number, unique among the messages in flight. */
  readonly index: number;
  /** Call it with the handler's reply, and with the worker's name if the contender knows it. */
  readonly done: (reply: unknown, worker?: unknown) => void;
  /** Call it with the error if there is no reply. */
  readonly failed: (error: unknown) => void;
  /** Where a contender may cache a callback made from `done` and `failed`. */
  callback: ((reply: unknown, worker: unknown) => void) | null;
}

/** Percentiles that a contender measures itself. */
export interface Times {
  readonly p50_us: number;
  readonly p90_us: number;
  readonly p99_us: number;
  readonly p999_us: number;
  readonly max_us: number;
}

/** A pool with all its workers. */
export interface Contender {
  /** The version of the package. */
  readonly version: string;
  /** Its settings that differ from its defaults, for the report. */
  readonly settings: Readonly<Record<string, unknown>>;
  /** Submits a message. Calls `done` or `failed` of the ticket once, possibly before it returns. */
  submit(message: BenchMessage, ticket: Ticket): void;
  /** Discards the times of the warm-up. */
  resetTimes?(): void;
  /** How long messages waited for a worker, and how long handlers ran. */
  times?(): { readonly wait: Times; readonly run: Times };
  close(): Promise<void>;
}

export type StartContender = (plan: Plan) => Promise<Contender>;
