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

/** What a handler is given beside the request. */
export class ScriptContext implements Context {
  readonly #call: number;
  readonly #owner: WorkerContext;
  #controller: AbortController | undefined;

  constructor(call: number, owner: WorkerContext) {
    this.#call = call;
    this.#owner = owner;
  }

  get state(): WorkerState {
    return this.#owner.state;
  }

  get worker(): WorkerInfo {
    return this.#owner.worker;
  }

  get log(): Log {
    return logOf(this.#call);
  }

  get signal(): AbortSignal {
    return (this.#controller ??= new AbortController()).signal;
  }

  get deadline(): Date | null {
    const left = host.remaining(this.#call);
    return left < 0 ? null : new Date(Date.now() + left);
  }

  remaining(): number {
    const left = host.remaining(this.#call);
    return left < 0 ? Infinity : left;
  }

  /** Has the handler stop what it still does. */
  abort(reason: unknown): void {
    (this.#controller ??= new AbortController()).abort(reason);
  }
}
