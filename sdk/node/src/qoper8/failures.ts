/** Errors in QOper8's form: replies with a member `error`. */
import type { CrashedError, HandlerError, PoolError } from '../pool/errors.js';
import { errorText } from './setup.js';
import type { QOper8Message } from './delivery.js';

/** The errors behind error replies, for callers that need more than the text. Replies made by handlers are not in here. */
const causes = new WeakMap<object, PoolError>();

export function causeOf(reply: unknown): PoolError | undefined {
  return typeof reply === 'object' && reply !== null ? causes.get(reply) : undefined;
}

/** The kind of worker, as named in error texts. */
export type WorkerName = 'Child Process' | 'Worker Thread';

/**
 * Whether the worker could not load the handler, after which it need not be replaced. Only the pool knows `control`, so no handler can fake
 * this.
 */
export function isNotLoaded(error: PoolError, control: string): boolean {
  return error.code === 'handler_error' && (error as HandlerError).thrown.members['notLoaded'] === control;
}

interface QueueLimits {
  readonly maxQueueLength: number;
  readonly maxQueueBytes: number;
}

/** The error reply to a message that got no reply. */
export function failureOf(error: PoolError, message: QOper8Message, workerId: number | undefined, name: WorkerName, limits: QueueLimits, control: string): object {
  const reply = Object.assign(membersOf(error, message, workerId, name, limits, control), { code: error.code });
  causes.set(reply, error);
  return reply;
}

function membersOf(error: PoolError, message: QOper8Message, workerId: number | undefined, name: WorkerName, limits: QueueLimits, control: string): object {
  switch (error.code) {
    case 'handler_error': {
      const { thrown } = error as HandlerError;
      if (isNotLoaded(error, control)) {
        const { module, caughtError } = thrown.members;
        return { error: `Unable to load Handler module ${String(module)}`, caughtError, originalMessage: message, workerId, qoper8: { finished: true } };
      }
      return {
        error: `Error running Handler Method for type ${message.type}`,
        caughtError: JSON.stringify({ stack: thrown.stack, message: thrown.message, ...thrown.members }, plain),
        shutdown: true,
        originalMessage: message,
        workerId,
        qoper8: { finished: true },
      };
    }
    case 'deadline':
      return { error: `${name} handler timeout exceeded`, originalRequest: message };
    case 'crashed': {
      const { exitCode, signal } = error as CrashedError;
      return { error: `${name} has shut down unexpectedly`, exitCode, signal, originalRequest: message };
    }
    case 'closed':
      return { error: 'QOper8 has been stopped', originalRequest: message };
    case 'start_failed':
      return { error: `QOper8 Worker has not been initialised: ${error.message}`, caughtError: errorText(error.cause ?? error), originalMessage: message };
    case 'unknown_type':
      return { error: `No handler defined for messages of type ${String(message.type)}`, originalMessage: message, qoper8: { finished: true } };
    case 'queue_full':
      return { error: `QOper8 queue is full (maxQueueLength ${limits.maxQueueLength})`, originalRequest: message };
    case 'queue_bytes_full':
      return { error: `QOper8 queue is full (maxQueueBytes ${limits.maxQueueBytes})`, originalRequest: message };
    case 'not_sendable':
    case 'aborted':
      return { error: error.message, originalRequest: message };
  }
}

/** Converts members that JSON cannot represent to text. */
function plain(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}
