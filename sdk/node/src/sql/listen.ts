/** What others tell a channel of a database. */
import { reply, type Reply } from '../reply.js';
import { ask } from './outcome.js';

/** What was heard. */
export interface Notification {
  /** What somebody has told the channel; `null` where `lost` says all. */
  readonly payload: string | null;
  /** That something may have been missed before this, as the connection broke or nobody took what was heard: what is known from before has to be read again. */
  readonly lost: boolean;
}

/** How {@link Listening.events} writes what it hears. */
export interface EventsOptions {
  /** The name of the events; without one they are `message`. */
  readonly event?: string | undefined;
}

/** Somebody who listens, from when it was made on. What was heard is iterated once. */
export interface Listening extends AsyncIterable<Notification> {
  /** Resolves when nothing is missed any more. Rejects with a `SqlError`. */
  ready(): Promise<void>;
  /**
   * Server-sent events, for a handler to return: each payload is one, and `lost` is the name of those that say that something may have been missed. They last until the client goes.
   *
   * ```js
   * app.get('/orders/events', () => sql.main.listen('orders').events());
   * ```
   */
  events(options?: EventsOptions): Promise<Reply>;
  /** Listens no more. */
  close(): Promise<void>;
}

/** How long one operation waits, and after how long a silent stream says that it is there. */
const WAIT_MS = 15_000;

export function listenTo(source: string, channel: string): Listening {
  const begun = ask<{ listen: number }>({ op: 'listen', source, channel: String(channel) });
  // Whoever iterates or asks learns of it.
  begun.catch(() => {});
  let isClosed = false;

  const hear = async (): Promise<readonly (string | null)[]> => {
    const { listen } = await begun;
    return (await ask<{ heard: readonly (string | null)[] }>({ op: 'hear', source, listen, wait_ms: WAIT_MS })).heard;
  };
  const ready = async (): Promise<void> => {
    await begun;
  };
  const close = async (): Promise<void> => {
    if (isClosed) return;
    isClosed = true;
    const { listen } = await begun;
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
    let spoken = Date.now();
    try {
      // So that the answer begins at once.
      yield ':\n\n';
      for (;;) {
        let text = '';
        for (const payload of await hear()) text += payload === null ? 'event: lost\ndata:\n\n' : `${name}data: ${payload.replace(/\r\n|\r|\n/g, '\ndata: ')}\n\n`;
        // A proxy may take a connection that is silent for one that is dead.
        if (text === '' && Date.now() - spoken >= WAIT_MS) text = ':\n\n';
        if (text === '') continue;
        spoken = Date.now();
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
