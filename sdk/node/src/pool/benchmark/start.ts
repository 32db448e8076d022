/**
 * Starts the contender that a plan names. Each is imported only when it is used, because the modules of peers change the process they run
 * in.
 */
import type { Contender } from './contender.js';
import { HANDLER_VARIABLE } from './handlers/variables.js';
import type { Plan } from './plan.js';

export async function start(plan: Plan): Promise<Contender> {
  if (plan.handler !== null) process.env[HANDLER_VARIABLE] = plan.handler;
  switch (plan.contender) {
    case 'forebay':
      return (await import('./contenders/forebay.js')).startForebay(plan);
    case 'qoper8-cp':
    case 'qoper8-wt':
      return (await import('./contenders/qoper8.js')).startQoper8(plan.contender, plan);
    case 'piscina':
      return (await import('./contenders/piscina.js')).startPiscina(plan);
    case 'tinypool':
      return (await import('./contenders/tinypool.js')).startTinypool(plan);
    case 'workerpool':
      return (await import('./contenders/workerpool.js')).startWorkerpool(plan);
    case 'ipc':
      return (await import('./contenders/ipc.js')).startIpc(plan);
    case 'nothing':
      return (await import('./contenders/nothing.js')).startNothing(plan);
  }
}
