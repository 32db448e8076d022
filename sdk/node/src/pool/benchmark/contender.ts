/** What the driver needs of a pool to drive it. */
import type { Plan } from './plan.js';

/** What is sent to a worker, the same for all contenders. */
export interface BenchMessage {
  readonly type: 'benchmark';
  /** From 1. */
  readonly messageNo: number;
  /** Unix milliseconds of its submission. */
  readonly time: number;
  readonly payload?: string;
}

/** A message on its way. Both functions are made once for many messages, so that a contender makes none for each. */
export interface Ticket {
  /** A small number that no other message on its way has. */
  readonly index: number;
  /** To be called with the handler's reply, and the worker's name where the contender knows it. */
  readonly done: (reply: unknown, worker?: unknown) => void;
  /** To be called with the error where there is no reply. */
  readonly failed: (error: unknown) => void;
  /** A place for what a contender makes of these two, once. */
  callback: ((reply: unknown, worker: unknown) => void) | null;
}

/** Percentiles of what a contender measures itself. */
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
  /** Gives the pool a message. Its end calls one function of the ticket, at any later time or at once. */
  submit(message: BenchMessage, ticket: Ticket): void;
  /** Forgets the times of the warm-up. */
  resetTimes?(): void;
  /** How long messages waited for a worker, and handlers ran. */
  times?(): { readonly wait: Times; readonly run: Times };
  close(): Promise<void>;
}

export type StartContender = (plan: Plan) => Promise<Contender>;
