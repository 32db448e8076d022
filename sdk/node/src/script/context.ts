import type { Context, Log, WorkerContext, WorkerInfo, WorkerState } from '../context.js';
import { host } from './host.js';

const LEVELS = { debug: 0, info: 1, warn: 2, error: 3 } as const;

/** A log whose lines name a call; 0 is none. */
export function logOf(call: number): Log {
  const write = (level: number) => (message: string, fields?: Readonly<Record<string, unknown>>) =>
    host.log(call, level, String(message), fields === undefined ? '' : fieldsText(fields));
  return { debug: write(LEVELS.debug), info: write(LEVELS.info), warn: write(LEVELS.warn), error: write(LEVELS.error) };
}

function fieldsText(fields: Readonly<Record<string, unknown>>): string {
  try {
    return JSON.stringify(fields);
  } catch (error) {
    return JSON.stringify({ fields_dropped: (error as Error).message });
  }
}

let owner: WorkerContext;

/** Names what all contexts share. */
export function setOwner(shared: WorkerContext): void {
  owner = shared;
}

/** Those of the calls that have asked for a signal. */
const controllers = new Map<number, AbortController>();

function controllerOf(call: number): AbortController {
  let controller = controllers.get(call);
  if (controller === undefined) {
    controller = new AbortController();
    if (host.isOpen(call)) controllers.set(call, controller);
  }
  return controller;
}

/** Nobody waits for the call's answer any more. */
export function abortSignal(call: number, reason: unknown): void {
  controllers.get(call)?.abort(reason);
}

/** The call has ended. */
export function forgetSignal(call: number): void {
  if (controllers.size > 0) controllers.delete(call);
}

const CALL = Symbol('call');

/** What a handler is given beside the request. It holds nothing but the call: most handlers do not look at it. */
class ScriptContext implements Context {
  declare readonly [CALL]: number;

  get state(): WorkerState {
    return owner.state;
  }

  get worker(): WorkerInfo {
    return owner.worker;
  }

  get log(): Log {
    return logOf(this[CALL]);
  }

  get signal(): AbortSignal {
    return controllerOf(this[CALL]).signal;
  }

  get deadline(): Date | null {
    const left = host.remaining(this[CALL]);
    return left < 0 ? null : new Date(Date.now() + left);
  }

  remaining(): number {
    const left = host.remaining(this[CALL]);
    return left < 0 ? Infinity : left;
  }
}

const MEMBERS = ScriptContext.prototype;

/** The context of a call. A literal is made in a third of the time that a constructor takes in the engine. */
export function contextOf(call: number): Context {
  return { __proto__: MEMBERS, [CALL]: call } as unknown as Context;
}
