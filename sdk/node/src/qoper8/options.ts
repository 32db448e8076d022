/** What QOper8 may be told, and what holds where it is not. */
import { resolve } from 'node:path';
import { duration, type PoolOptions } from '../pool/options.js';
import type { DatabaseOption, HandlerEntry, StartupModule } from './setup.js';

/** Hooks that keep a copy of the queue elsewhere. What they throw, or reject with, is told by the event `QBackupError`. */
export interface QueueBackup {
  /** A message is in the queue. Its id is a number that grows, also from one run of the program to the next. */
  add?(id: number, message: any): unknown;
  /** Its handler has answered. A message whose worker ended, or that was given up, stays in the copy. */
  delete?(id: number): unknown;
}

export interface QOper8Options {
  /** Workers there are at most; 1 unless you say otherwise. */
  poolSize?: number | string;
  /** Highest `poolSize`, here and for `setPoolSize()`; 32 unless you say otherwise. */
  maxPoolSize?: number;
  /** Where handlers are, by type of message. */
  handlersByMessageType?: Map<string, HandlerEntry> | Readonly<Record<string, HandlerEntry>>;
  /** Messages that wait, at most; 1,000,000 unless you say otherwise. */
  maxQueueLength?: number;
  /** The same, by the name that the code of QOper8 has for it. */
  maxQLength?: number;
  /** What waits takes at most so many bytes; 256 MiB unless you say otherwise. Not in QOper8. */
  maxQueueBytes?: number;
  /** Milliseconds that a handler may run; then its worker is replaced. `false`, as long as it wants, unless you say otherwise. */
  handlerTimeout?: number | false;
  /** Seconds between two looks for what has expired in `this.cache`; 60 unless you say otherwise. */
  workerInactivityCheckInterval?: number;
  /** Minutes after which a worker without work ends; 20 unless you say otherwise. */
  workerInactivityLimit?: number;
  /** Runs in each worker before its first message. */
  onStartup?: StartupModule | false;
  /** Has handlers use a store as `this.mgdbx`, `this.use` and `this.glsdb`. */
  mgdbx?: DatabaseOption;
  /** Milliseconds that an entry of `this.cache` with a time `at` is kept; 600,000 unless you say otherwise. */
  cacheExpiryTime?: number;
  QBackup?: QueueBackup | false;
  /** Whether `stop()` ends the program. */
  exitOnStop?: boolean;
  /** Whether what happens is written to the console; `logging` of the object switches it later. */
  logging?: boolean;
  /** Whether it can never be switched on. */
  disableLogging?: boolean;
  /** Whether workers are processes, as in qoper8-cp, or threads, as in qoper8-wt; processes unless you say otherwise. Not in QOper8. */
  kind?: 'process' | 'thread';
  /** Options of `Pool` that QOper8 has no name for. Not in QOper8. */
  pool?: Pick<PoolOptions, 'concurrency' | 'credit' | 'env' | 'execArgv' | 'resourceLimits' | 'recycle' | 'startMax' | 'killGrace' | 'runtime'> & { size?: { min?: number } };
  /** Others of QOper8 that have no effect, as `workerModulePath`. */
  [name: string]: unknown;
}

/** Options with everything filled in; durations in milliseconds. */
export interface QOper8Settings {
  readonly poolSize: number;
  readonly maxPoolSize: number;
  readonly maxQueueLength: number;
  readonly maxQueueBytes: number;
  readonly handlerTimeout: number;
  readonly checkInterval: number;
  readonly inactivityLimit: number;
  readonly cacheExpiryTime: number;
  readonly mgdbx: DatabaseOption | null;
  readonly backup: QueueBackup | null;
  readonly exitOnStop: boolean;
  readonly mayLog: boolean;
  readonly kind: 'process' | 'thread';
  readonly pool: NonNullable<QOper8Options['pool']>;
}

const MINUTE_MS = 60_000;

export function settle(options: QOper8Options): QOper8Settings {
  if (typeof options !== 'object' || options === null) throw new TypeError('QOper8 takes an object of options');
  const { kind = 'process', pool = {} } = options;
  if (kind !== 'process' && kind !== 'thread') throw new TypeError(`kind is 'process' or 'thread', not ${JSON.stringify(kind)}`);
  const maxPoolSize = whole('maxPoolSize', options.maxPoolSize ?? 32, 1, 1_024);
  const [lengthName, length] = options.maxQueueLength === undefined ? ['maxQLength', options.maxQLength] : ['maxQueueLength', options.maxQueueLength];
  return {
    poolSize: Math.min(maxPoolSize, whole('poolSize', Number(options.poolSize || 1), 1, Infinity)),
    maxPoolSize,
    maxQueueLength: whole(lengthName!, (length as number | undefined) ?? 1_000_000, 0, Infinity),
    maxQueueBytes: whole('maxQueueBytes', options.maxQueueBytes ?? 268_435_456, 0, Infinity),
    handlerTimeout: duration('handlerTimeout', options.handlerTimeout || Infinity),
    checkInterval: duration('workerInactivityCheckInterval', (options.workerInactivityCheckInterval || 60) * 1_000),
    inactivityLimit: duration('workerInactivityLimit', (options.workerInactivityLimit || 20) * MINUTE_MS),
    cacheExpiryTime: duration('cacheExpiryTime', options.cacheExpiryTime || 10 * MINUTE_MS),
    mgdbx: options.mgdbx ?? null,
    backup: options.QBackup || null,
    exitOnStop: options.exitOnStop === true,
    mayLog: options.disableLogging !== true,
    kind,
    pool,
  };
}

/** The handlers of a map, with their folders as paths that hold in any worker. */
export function handlersOf(map: Map<string, HandlerEntry>): [type: string, entry: HandlerEntry][] {
  return [...(map as Map<string, unknown>)].map(([type, entry]) => {
    if (typeof entry === 'string') return [type, { module: resolve(entry) }];
    const { text, module, path } = (entry ?? {}) as { text?: unknown; module?: unknown; path?: string };
    if (typeof text === 'string') return [type, { text }];
    if (typeof module !== 'string') throw new TypeError(`the handler of ${JSON.stringify(type)} is { module, path } or { text }, not ${JSON.stringify(entry)}`);
    return [type, { module, path: resolve(path ?? '.') }];
  });
}

function whole(name: string, value: number, least: number, most: number): number {
  if ((Number.isInteger(value) || value === Infinity) && value >= least && value <= most) return value;
  throw new RangeError(`${name} is a whole number of at least ${least}${most === Infinity ? '' : `, at most ${most}`}, not ${String(value)}`);
}
