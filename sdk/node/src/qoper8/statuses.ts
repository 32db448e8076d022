/** HTTP responses for replies: what the handler specifies, or a status that matches the reason why there is no reply. */
import type { PoolError } from '../pool/errors.js';

/** Seconds until a client should retry. */
const RETRY_AFTER = '1';

export class Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>> | null;
  readonly body: unknown;

  constructor(status: number, headers: Readonly<Record<string, unknown>> | null, body: unknown) {
    this.status = status;
    this.headers = headers;
    this.body = body;
  }

  /** Reveals nothing internal: no stack, no exception message, nothing from the request. */
  static failed({ code }: PoolError): Answer {
    switch (code) {
      case 'handler_error':
        return new Answer(500, null, { error: 'the handler failed' });
      case 'not_sendable':
      case 'unknown_type':
        return new Answer(500, null, { error: 'the request cannot be given to a worker' });
      case 'crashed':
        return new Answer(502, null, { error: 'the worker ended while it ran the request' });
      case 'deadline':
        return new Answer(504, null, { error: 'the handler took too long' });
      case 'queue_full':
      case 'queue_bytes_full':
        return new Answer(503, { 'retry-after': RETRY_AFTER }, { error: 'too many requests wait' });
      case 'start_failed':
        return new Answer(503, { 'retry-after': RETRY_AFTER }, { error: 'no worker is ready' });
      case 'closed':
        return new Answer(503, { 'retry-after': RETRY_AFTER, connection: 'close' }, { error: 'the server stops' });
      case 'aborted':
        return new Answer(499, null, { error: 'the client has gone' });
    }
  }
}

/**
 * The response for a handler's reply. `{ error, errorCode }` sets the status, 400 by default; `http_response` sets status and headers of
 * any other reply.
 */
export function answerOf(response: unknown): Answer {
  if (typeof response !== 'object' || response === null || Array.isArray(response)) return new Answer(200, null, response);
  const reply = response as { error?: unknown; errorCode?: unknown; http_response?: unknown; qoper8?: unknown };
  if (reply.error) {
    const { errorCode, http_response, ...body } = reply;
    return new Answer(isStatus(errorCode) ? errorCode : 400, headersOf(http_response), body);
  }
  if (reply.http_response === undefined) return new Answer(200, null, reply);
  const { http_response, ...body } = reply;
  const { statusCode } = (http_response ?? {}) as { statusCode?: unknown };
  return new Answer(isStatus(statusCode) ? statusCode : 200, headersOf(http_response), body);
}

function isStatus(value: unknown): value is number {
  return typeof value === 'number' && Number.isInteger(value) && value >= 200 && value <= 599;
}

function headersOf(response: unknown): Readonly<Record<string, unknown>> | null {
  const { headers } = (response ?? {}) as { headers?: unknown };
  return typeof headers === 'object' && headers !== null ? (headers as Readonly<Record<string, unknown>>) : null;
}
