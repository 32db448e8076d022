/** Notifications on a channel of a database. */
import { reply, type Reply } from '../reply.js';
import { ask } from './outcome.js';

/** A notification, or the report of a gap. */
export interface Notification {
  /** The payload of the notification; `null` if `lost` is set. */
  readonly payload: string | null;
  /**
   * Whether notifications may have been lost before this point, because the connection broke or they were read too slowly: read again any
   * data you cached.
   */
  readonly lost: boolean;
}

/** Options of {@link Listening.events}. */
export interface EventsOptions {
  /** The event name; `message` by default. */
  readonly event?: string | undefined;
}

/** A listener, active from its creation. It can be iterated once. */
export interface Listening extends AsyncIterable<Notification> {
  /** Resolves when the listener is active, so that later notifications reach it. Rejects with a `SqlError`. */
  ready(): Promise<void>;
  /**
   * Server-sent events, to be returned by a handler: one for each payload, and one named `lost` if notifications may have been lost. The
   * stream lasts until the client disconnects.
   *
   * ```js
   * app.get('/orders/events', () => sql.main.listen('orders').events());
   * ```
   */
  events(options?: EventsOptions): Promise<Reply>;
  /** Stops listening. */
  close(): Promise<void>;
}

/** Longest wait of one operation, and the interval of keep-alive comments on a silent stream. */
const WAIT_MS = 15_000;

export function listenTo(source: string, channel: string): Listening {
  const opening = ask<{ listen: number }>({ op: 'listen', source, channel: String(channel) });
  // The error is reported by iterating and by `ready()`.
  opening.catch(() => {});
  let isClosed = false;

  const hear = async (): Promise<readonly (string | null)[]> => {
    const { listen } = await opening;
    return (await ask<{ heard: readonly (string | null)[] }>({ op: 'hear', source, listen, wait_ms: WAIT_MS })).heard;
  };
  const ready = async (): Promise<void> => {
    await opening;
  };
  const close = async (): Promise<void> => {
    if (isClosed) return;
    isClosed = true;
    const { listen } = await opening;
    await ask({ op: 'close', source, id: listen });
  };
  async function* notifications(): AsyncGenerator<Notification, void, undefined> {
    try {
      while (!isClosed) for (const payload of await hear()) yield { payload, lost: payload === null };
    } finally {
      await close();
    }
  }
  async function* texts(name: string): AsyncGenerator<string, void, undefined> {
    let lastSent = Date.now();
    try {
      // Makes the response begin at once.
      yield ':\n\n';
      for (;;) {
        let text = '';
        for (const payload of await hear()) text += payload === null ? 'event: lost\ndata:\n\n' : `${name}data: ${payload.replace(/\r\n|\r|\n/g, '\ndata: ')}\n\n`;
        // A proxy might close a connection that stays silent.
        if (text === '' && Date.now() - lastSent >= WAIT_MS) text = ':\n\n';
        if (text === '') continue;
        lastSent = Date.now();
        yield text;
      }
    } finally {
      await close();
    }
  }
  const events = async ({ event }: EventsOptions = {}): Promise<Reply> => {
    if (event !== undefined && (typeof event !== 'string' || /[\r\n]/.test(event))) throw new TypeError('the name of events is text in one line');
    await ready();
    return reply(texts(event === undefined ? '' : `event: ${event}\n`), {
      headers: { 'content-type': 'text/event-stream', 'cache-control': 'no-store' },
    });
  };
  return { ready, events, close, [Symbol.asyncIterator]: notifications };
}
