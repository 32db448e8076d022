/**
 * No pool at all: each message is answered in the next turn of the event loop, through a promise as in most pools. This measures the
 * cost of the driver itself, the floor under all its figures.
 */
import type { Contender, Ticket } from '../contender.js';
import type { Plan } from '../plan.js';

export async function startNothing(plan: Plan): Promise<Contender> {
  let waiting: (() => void)[] = [];
  const submit = (message: { messageNo: number }, ticket: Ticket): void => {
    new Promise((resolve) => {
      if (waiting.length === 0) setImmediate(answer);
      waiting.push(() => resolve({ messageNo: message.messageNo, workerId: message.messageNo % plan.workers, count: 1 }));
    }).then(ticket.done, ticket.failed);
  };
  function answer(): void {
    const ready = waiting;
    waiting = [];
    for (const reply of ready) reply();
  }
  return { version: process.versions.node, settings: {}, submit, close: async () => {} };
}
