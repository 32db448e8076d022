/** Server-sent events (the EventSource interface of HTML, section 9.2). */
import { TEXT_EVENT_STREAM, reply, toJson, type Reply, type ReplyInit } from './reply.js';

/** An event. At least one member should be set; without `data`, `EventSource` tells its page nothing. */
export interface ServerSentEvent {
  /** The content: text as it is, any other value as JSON. */
  readonly data?: unknown;
  /** The event's type; `message` when left out. */
  readonly event?: string | undefined;
  /** Sent back as `last-event-id` when the client connects again. */
  readonly id?: string | undefined;
  /** Milliseconds that the client waits before it connects again. */
  readonly retry?: number | undefined;
}

type Events = AsyncIterable<ServerSentEvent | string> | Iterable<ServerSentEvent | string>;

/** Options of {@link sse}. */
export interface SseInit extends ReplyInit {
  /** Milliseconds of silence after which a comment is sent, so that proxies keep the connection open; 15,000 by default. */
  keepAlive?: number | undefined;
}

const KEEP_ALIVE_MS = 15_000;
const LINE_BREAK = /\r\n|\r|\n/;
const COMMENT = ':\n\n';

/**
 * Answers with a stream of events. It does not count against the pool's `concurrency`, has no time limit, and ends when `events` do, when
 * the client leaves, or when the worker is to end; then the client connects again by itself.
 *
 * ```js
 * app.get('/clock', () => sse(async function* () {
 *   for (let tick = 0; ; tick++) {
 *     yield { event: 'tick', data: { tick }, id: String(tick) };
 *     await sleep(1000);
 *   }
 * }));
 * ```
 * @param events The events, or text as the data of one; or a function that returns them.
 */
export function sse(
  events: Events | (() => Events),
  init: SseInit = {},
): Reply {
  const { keepAlive = KEEP_ALIVE_MS, ...rest } = init;
  const source = typeof events === 'function' ? events() : events;
  const headers = { 'content-type': TEXT_EVENT_STREAM, 'cache-control': 'no-store' };
  const plain = reply(pieces(source, keepAlive), { headers });
  return rest.headers === undefined && rest.status === undefined ? plain : reply(plain, rest);
}

async function* pieces(events: Events, keepAlive: number): AsyncGenerator<string> {
  const iterator = Symbol.asyncIterator in events ? events[Symbol.asyncIterator]() : events[Symbol.iterator]();
  try {
    let next = Promise.resolve(iterator.next());
    for (;;) {
      const step = await within(next, keepAlive);
      if (step === null) {
        yield COMMENT;
        continue;
      }
      if (step.done === true) return;
      yield eventText(step.value);
      next = Promise.resolve(iterator.next());
    }
  } finally {
    void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

/** The result of a step, or null if that takes more than `ms` milliseconds. */
async function within<T>(step: Promise<T>, ms: number): Promise<T | null> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<null>((resolve) => (timer = setTimeout(resolve, ms, null)));
  try {
    return await Promise.race([step, silence]);
  } finally {
    clearTimeout(timer);
  }
}

/** @throws TypeError for a field that would break the stream. */
function eventText(event: ServerSentEvent | string): string {
  const { data, event: type, id, retry } = typeof event === 'string' ? { data: event } : event;
  let text = '';
  if (type !== undefined) text += `event: ${line('event', type)}\n`;
  if (id !== undefined) text += `id: ${line('id', id)}\n`;
  if (retry !== undefined) text += `retry: ${Math.round(retry)}\n`;
  if (data !== undefined) {
    for (const part of (typeof data === 'string' ? data : toJson(data)).split(LINE_BREAK)) text += `data: ${part}\n`;
  }
  return `${text}\n`;
}

function line(name: string, value: string): string {
  if (LINE_BREAK.test(value) || value.includes('\0')) throw new TypeError(`the ${name} of an event is one line, not ${JSON.stringify(value)}`);
  return value;
}
