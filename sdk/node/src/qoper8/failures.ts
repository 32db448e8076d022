/** Errors as QOper8 gives them: replies with a member `error`. */
import type { CrashedError, HandlerError, PoolError } from '../pool/errors.js';
import { errorText } from './setup.js';
import type { QOper8Message } from './delivery.js';

/** Why a reply is an error, for those who are not content with a text; of replies that handlers gave themselves there is nothing. */
const causes = new WeakMap<object, PoolError>();

export function causeOf(reply: unknown): PoolError | undefined {
  return typeof reply === 'object' && reply !== null ? causes.get(reply) : undefined;
}

/** What a worker is called in texts. */
export type WorkerName = 'Child Process' | 'Worker Thread';

/** Whether the worker could not load the handler; then it stays. Only it knows `control`, so that no handler can say this. */
export function isNotLoaded(error: PoolError, control: string): boolean {
  return error.code === 'handler_error' && (error as HandlerError).thrown.members['notLoaded'] === control;
}

interface QueueLimits {
  readonly maxQueueLength: number;
  readonly maxQueueBytes: number;
}

/** The reply for a message that has none. */
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

/** Members that JSON has no form for are written as texts. */
function plain(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value;
}
