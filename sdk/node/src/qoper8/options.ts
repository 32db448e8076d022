/** Options of QOper8, and their defaults. */
import { resolve } from 'node:path';
import { duration, type PoolOptions } from '../pool/options.js';
import type { DatabaseOption, HandlerEntry, StartupModule } from './setup.js';

/** Hooks that maintain a copy of the queue elsewhere. Errors they throw or reject with are emitted as `QBackupError`. */
export interface QueueBackup {
  /** A message was queued. Its id is a number that keeps increasing, also across restarts of the program. */
  add?(id: number, message: any): unknown;
  /** A handler has answered the message. A message whose worker ended, or that was aborted, stays in the copy. */
  delete?(id: number): unknown;
}

export interface QOper8Options {
  /** Maximum number of workers; 1 by default. */
  poolSize?: number | string;
  /** Upper limit for `poolSize`, also for `setPoolSize()`; 32 by default. */
  maxPoolSize?: number;
  /** Where to find the handlers, by message type. */
  handlersByMessageType?: Map<string, HandlerEntry> | Readonly<Record<string, HandlerEntry>>;
  /** Maximum number of waiting messages; 1,000,000 by default. */
  maxQueueLength?: number;
  /** Same as `maxQueueLength`; the name used in QOper8's code. */
  maxQLength?: number;
  /** Maximum total size of waiting messages in bytes; 256 MiB by default. Not in QOper8. */
  maxQueueBytes?: number;
  /** Milliseconds that a handler may run before its worker is replaced; `false`, the default, for no limit. */
  handlerTimeout?: number | false;
  /** Seconds between two checks for expired entries of `this.cache`; 60 by default. */
  workerInactivityCheckInterval?: number;
  /** Minutes after which an idle worker ends; 20 by default. */
  workerInactivityLimit?: number;
  /** A module that runs in each worker before its first message. */
  onStartup?: StartupModule | false;
  /** Opens a store for handlers, as `this.mgdbx`, `this.use` and `this.glsdb`. */
  mgdbx?: DatabaseOption;
  /** Milliseconds for which an entry of `this.cache` with a time `at` is kept; 600,000 by default. */
  cacheExpiryTime?: number;
  QBackup?: QueueBackup | false;
  /** Whether `stop()` ends the program. */
  exitOnStop?: boolean;
  /** Whether to log events to the console; the `logging` property changes it later. */
  logging?: boolean;
  /** Whether logging can never be switched on. */
  disableLogging?: boolean;
  /** Whether workers are processes, as in qoper8-cp, or threads, as in qoper8-wt; processes by default. Not in QOper8. */
  kind?: 'process' | 'thread';
  /** Options of `Pool` that have no equivalent in QOper8. Not in QOper8. */
  pool?: Pick<PoolOptions, 'concurrency' | 'credit' | 'env' | 'execArgv' | 'resourceLimits' | 'recycle' | 'startMax' | 'killGrace' | 'runtime'> & { size?: { min?: number } };
  /** Other options of QOper8, such as `workerModulePath`, have no effect. */
  [name: string]: unknown;
}

/** Validated options with defaults filled in; durations in milliseconds. */
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
  const maxPoolSize = checkInteger('maxPoolSize', options.maxPoolSize ?? 32, 1, 1_024);
  const [lengthName, length] = options.maxQueueLength === undefined ? ['maxQLength', options.maxQLength] : ['maxQueueLength', options.maxQueueLength];
  return {
    poolSize: Math.min(maxPoolSize, checkInteger('poolSize', Number(options.poolSize || 1), 1, Infinity)),
    maxPoolSize,
    maxQueueLength: checkInteger(lengthName!, (length as number | undefined) ?? 1_000_000, 0, Infinity),
    maxQueueBytes: checkInteger('maxQueueBytes', options.maxQueueBytes ?? 268_435_456, 0, Infinity),
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

/** The handlers of a map, with absolute folders that are valid in any worker. */
export function handlersOf(map: Map<string, HandlerEntry>): [type: string, entry: HandlerEntry][] {
  return [...(map as Map<string, unknown>)].map(([type, entry]) => {
    if (typeof entry === 'string') return [type, { module: resolve(entry) }];
    const { text, module, path } = (entry ?? {}) as { text?: unknown; module?: unknown; path?: string };
    if (typeof text === 'string') return [type, { text }];
    if (typeof module !== 'string') throw new TypeError(`the handler of ${JSON.stringify(type)} is { module, path } or { text }, not ${JSON.stringify(entry)}`);
    return [type, { module, path: resolve(path ?? '.') }];
  });
}

function checkInteger(name: string, value: number, min: number, max: number): number {
  if ((Number.isInteger(value) || value === Infinity) && value >= min && value <= max) return value;
  throw new RangeError(`${name} is a whole number of at least ${min}${max === Infinity ? '' : `, at most ${max}`}, not ${String(value)}`);
}
