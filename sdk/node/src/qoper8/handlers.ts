/**
 * Adapts handlers written for QOper8 to message handlers, for a `Pool` or for pools of the server.
 *
 * ```js
 * import { qoper8Handlers } from 'forebay/qoper8/handlers';
 * import { handler as hello } from './hello.mjs';
 *
 * export default qoper8Handlers({ hello });
 * ```
 *
 * @module
 */
import { messages, type MessageHandler, type MessagesHandler, type MessageTable } from '../messages.js';
import { Self, type HandlerThis, type QOper8Handler } from './self.js';

export type { Finished, HandlerThis, QOper8Handler } from './self.js';

export interface StartupOptions {
  /** Runs before the first message, with the same `this` as handlers. */
  onStartupModule?: (this: HandlerThis, args: any) => unknown;
  /** The argument of `onStartupModule`. */
  arguments?: unknown;
}

const USUAL = { control: '', logging: false, cacheExpiryTime: 600_000, checkInterval: 60_000 };

/** Makes a module of message handlers from QOper8 handlers by message type. */
export function qoper8Handlers(handlers: Readonly<Record<string, QOper8Handler>>, startup: StartupOptions = {}): MessagesHandler<MessageTable> {
  let self: Self | null = null;
  /** Settles when the startup module has finished; the first messages of the worker await it. */
  let starting: Promise<void> | null = null;
  let isStarted = startup.onStartupModule === undefined;
  const table: Record<string, MessageHandler> = {};
  for (const [type, handler] of Object.entries(handlers)) {
    if (typeof handler !== 'function') throw new TypeError(`the handler of ${JSON.stringify(type)} is a function, not ${typeof handler}`);
    let answer: MessageHandler | null = null;
    table[type] = (message, context) => {
      if (answer === null) answer = (self ??= new Self(USUAL, Math.max(0, context.worker.id - 1))).handlerOf(type, handler);
      if (isStarted) return answer(message, context);
      starting ??= self!.startWith(startup.onStartupModule!, startup.arguments).then(() => void (isStarted = true));
      return starting.then(() => answer!(message, context));
    };
  }
  const made = messages(table);
  // Lets the startup module clean up.
  return Object.assign(made, { onStop: () => self?.stop() });
}
