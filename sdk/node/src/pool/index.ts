/**
 * A pool of worker processes or threads inside a Node or Bun program, with the workers and the protocol of the Forebay server.
 *
 * @module
 */
export { Pool, type DeadLetter, type LogEntry, type Messages, type PoolEvents, type PoolStats, type RunOptions, type TypeStats, type WorkerStats } from './pool.js';
export type { PartStream } from './stream.js';
export { move } from '../transfer.js';
export type { Deadlines, HandlerOption, PoolOptions, RecycleOptions, RetryCause, RetryOptions } from './options.js';
export {
  AbortedError,
  ClosedError,
  CrashedError,
  DeadlineError,
  HandlerError,
  NotSendableError,
  PoolError,
  QueueFullError,
  StartFailedError,
  UnknownTypeError,
  type DeadlinePhase,
  type PoolErrorCode,
  type WorkerEnd,
} from './errors.js';
export type { HistogramSummary } from './histogram.js';
export type { Counts } from './dispatcher.js';
export type { EndCause } from './fleet.js';
export type { MessageContext, MessageHandler } from '../messages.js';
