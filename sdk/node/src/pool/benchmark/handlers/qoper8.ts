/** The handler in the form that QOper8 calls. */
import { handle } from './selected-handler.js';

interface Qoper8Worker {
  readonly id: number;
}

export function handler(this: Qoper8Worker, message: never, finished: (reply: unknown) => void): void {
  const reply = handle(message, { worker: { id: this.id } });
  if (reply instanceof Promise) void reply.then(finished, (error: unknown) => finished({ error: String(error) }));
  else finished(reply);
}
