import { fileURLToPath } from 'node:url';
import type { Contender, Ticket } from '../contender.js';
import { exported, importPeer } from '../packages.js';
import type { Plan } from '../plan.js';

interface Qoper8 {
  message(message: object, callback: (reply: unknown, worker: unknown) => void): void;
  stop(): Promise<void>;
}

/** A limit in minutes that no run reaches. */
const NEVER = 24 * 60;

/** QOper8 has no settings that make it faster: one message per worker, no batches, over IPC (cp) or `postMessage` (wt). */
export async function startQoper8(name: 'qoper8-cp' | 'qoper8-wt', plan: Plan): Promise<Contender> {
  const { version, module } = await importPeer(name, plan);
  const QOper8 = exported(module, 'QOper8') as new (options: object) => Qoper8;
  const pool = new QOper8({
    poolSize: plan.workers,
    // An upper limit, whatever poolSize is.
    maxPoolSize: Math.max(32, plan.workers),
    workerInactivityLimit: NEVER,
    logging: false,
    // No `path`: only qoper8-cp supports it.
    handlersByMessageType: new Map([['benchmark', { module: fileURLToPath(new URL('../handlers/qoper8.js', import.meta.url)) }]]),
  });
  return {
    version,
    settings: {},
    submit(message, ticket) {
      pool.message(message, (ticket.callback ??= callback(ticket)));
    },
    close: () => pool.stop(),
  };
}

/** QOper8 reports errors as replies with a member `error`. */
function callback(ticket: Ticket): (reply: unknown, worker: unknown) => void {
  return (reply, worker) => {
    const error = (reply as { error?: unknown } | null)?.error;
    if (error === undefined) ticket.done(reply, worker);
    else ticket.failed(error);
  };
}
