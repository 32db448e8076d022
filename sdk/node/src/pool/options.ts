/** Options of a pool, and their defaults. */
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ResourceLimits } from 'node:worker_threads';
import { encode } from '../message.js';
import type { HandlerSource } from '../worker/messages.js';

/** Time limits in milliseconds; `Infinity` for none. */
export interface Deadlines {
  /** For waiting until a worker is free. `Infinity` by default. */
  queue?: number;
  /** For running the handler; 60,000 by default. A handler that exceeds it is stopped together with its worker. */
  run?: number;
  /** For both together. `Infinity` by default. */
  total?: number;
}

/** The handler of a message type. */
export type HandlerOption =
  | string
  | URL
  | {
      file: string | URL;
      /** The export that is the handler; by default `default`, or else `handler`. */
      export?: string;
      /** Maximum number of messages of the type that run at the same time, over all workers; unlimited by default. */
      concurrency?: number;
    }
  | {
      /** The body of a function with the parameters `message` and `ctx`. */
      source: string;
      concurrency?: number;
    };

/** When failed messages are run again. */
export interface RetryOptions {
  /** Maximum number of runs of a message; 1 means no retries. */
  attempts: number;
  /**
   * Failures that are retried: the worker ended while it ran the message (`crash`), the run exceeded its deadline (`deadline`), the handler
   * threw (`error`). `['crash']` by default.
   */
  after?: readonly RetryCause[];
  /** Milliseconds before the first retry, doubled for each further one up to a minute; half of the delay is random. 0 by default. */
  backoff?: number;
}

export type RetryCause = 'crash' | 'deadline' | 'error';

/** When workers are replaced. A replacement is ready before the old worker ends. */
export interface RecycleOptions {
  /** After this many messages. */
  messages?: number;
  /** At this age in milliseconds, plus up to a tenth. */
  age?: number;
  /** When it uses this many bytes of memory. Processes only. */
  rss?: number;
  /** After this many handler errors. */
  errors?: number;
}

export interface PoolOptions {
  /** The pool's name in errors and in `ctx.worker.pool`; `pool` by default. */
  name?: string;
  /**
   * A handler module as for pools of the server. One made by `messages()` dispatches on the message type. A request handler (a router, a
   * function `(request, ctx)`, an object with `fetch`) gets a message of type `resize` as `POST /resize`, with the message as its JSON
   * body.
   */
  handler?: string | URL;
  /** Functions `(message, ctx)` by message type. A worker loads each one when it gets the first message of that type. */
  handlers?: Readonly<Record<string, HandlerOption>>;
  /** The folder for relative paths; the current directory by default. */
  root?: string;
  /** Whether workers are processes or threads of this one; processes by default. */
  kind?: 'process' | 'thread';
  /** Minimum (1) and maximum (the number of cores) number of workers. With `min: 0`, none is started before the first message. */
  size?: { min?: number; max?: number };
  /** How many messages a worker runs at the same time; 1 by default, so that handlers may block. */
  concurrency?: number;
  /**
   * Maximum number of messages in a worker's inbox beyond those that it runs, as long as they take at most a millisecond in total; 255 by
   * default, 0 for none.
   */
  credit?: number;
  /**
   * Maximum number of waiting messages; 10,000 by default. `auto` is the square of the maximum number of workers. With 0, a message is
   * accepted only if a worker can run it at once.
   */
  queueMax?: number | 'auto';
  /** Maximum total size of waiting messages in bytes; 64 MiB by default. */
  queueBytesMax?: number;
  deadlines?: Deadlines;
  retry?: RetryOptions;
  recycle?: RecycleOptions;
  /** Milliseconds after which an idle worker beyond `size.min` ends; 60,000 by default. */
  idleMax?: number;
  /** Milliseconds within which a worker must become ready; 30,000 by default. */
  startMax?: number;
  /** Milliseconds that a handler has to react to its aborted signal, and then a worker to SIGTERM, before it is killed; 300 by default. */
  killGrace?: number;
  /** Passed to each worker as `ctx.worker.data`. */
  data?: unknown;
  /** A module whose `onStart(ctx)` runs in each worker before its first message, and `onStop(ctx)` after its last. */
  start?: string | URL;
  /** The workers' environment variables; those of this process by default. */
  env?: Readonly<Record<string, string | undefined>>;
  /** The workers' current directory. Processes only. */
  cwd?: string;
  /** Command-line arguments of the worker program, and of its runtime. */
  argv?: readonly string[];
  execArgv?: readonly string[];
  /** The runtime's executable; the one that runs this process by default. Processes only. */
  runtime?: string;
  /** A command that speaks the worker protocol, run instead of the SDK's worker. */
  command?: readonly string[];
  /** Memory limits as in `node:worker_threads`. */
  resourceLimits?: ResourceLimits;
}

/** Validated options with defaults filled in. Durations in milliseconds. */
export interface Settings {
  readonly name: string;
  readonly handler: string | null;
  readonly sources: Readonly<Record<string, HandlerSource>> | null;
  readonly limits: ReadonlyMap<string, number>;
  readonly root: string;
  readonly kind: 'process' | 'thread';
  readonly concurrency: number;
  readonly credit: number;
  readonly queueMax: number | 'auto';
  readonly queueBytesMax: number;
  readonly deadlines: Readonly<Required<Deadlines>>;
  readonly retry: Readonly<Required<RetryOptions>>;
  readonly recycle: Readonly<Required<RecycleOptions>>;
  readonly idleMax: number;
  readonly startMax: number;
  readonly killGrace: number;
  /** Encoded as base64; `null` if there is none. */
  data: string | null;
  readonly start: string | null;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd: string | undefined;
  readonly argv: readonly string[];
  readonly execArgv: readonly string[];
  readonly runtime: string;
  readonly command: readonly string[] | null;
  readonly resourceLimits: ResourceLimits | null;
}

/** The minimum and maximum number of workers. */
export interface Size {
  readonly min: number;
  readonly max: number;
}

/** Upper limit for the size of a pool. */
const WORKERS_MAX = 1_024;
const CONCURRENCY_MAX = 2_048;
const CREDIT_MAX = 255;

const KEYS = new Set<keyof PoolOptions>([
  'name', 'handler', 'handlers', 'root', 'kind', 'size', 'concurrency', 'credit', 'queueMax', 'queueBytesMax', 'deadlines', 'retry', 'recycle', 'idleMax', 'startMax', 'killGrace',
  'data', 'start', 'env', 'cwd', 'argv', 'execArgv', 'runtime', 'command', 'resourceLimits',
]);
/** Keys of the options that are objects. */
const PARTS = {
  deadlines: ['queue', 'run', 'total'],
  retry: ['attempts', 'after', 'backoff'],
  recycle: ['messages', 'age', 'rss', 'errors'],
  resourceLimits: ['maxOldGenerationSizeMb', 'maxYoungGenerationSizeMb', 'codeRangeSizeMb', 'stackSizeMb'],
} as const;

/** Validates options and fills in defaults. @throws TypeError or RangeError that names the option and what is accepted. */
export function settle(options: PoolOptions): { settings: Settings; size: Size } {
  if (typeof options !== 'object' || options === null) throw new TypeError('a pool takes an object of options');
  for (const key of Object.keys(options)) {
    if (!KEYS.has(key as keyof PoolOptions)) throw new TypeError(`a pool has no option ${JSON.stringify(key)}; there are ${[...KEYS].join(', ')}`);
  }
  for (const [name, keys] of Object.entries(PARTS)) known(name, options[name as keyof typeof PARTS], keys);
  const { handler, handlers, command } = options;
  if (handler !== undefined && handlers !== undefined) throw new TypeError('a pool has `handler` or `handlers`, not both');
  if (handler === undefined && handlers === undefined && command === undefined) throw new TypeError('a pool needs `handlers`, `handler` or `command`');
  const kind = options.kind ?? 'process';
  if (kind !== 'process' && kind !== 'thread') throw new TypeError(`kind is 'process' or 'thread', not ${JSON.stringify(kind)}`);
  if (kind === 'thread') {
    for (const key of ['cwd', 'runtime', 'command'] as const) {
      if (options[key] !== undefined) throw new TypeError(`${key} is for workers that are processes; kind is 'thread'`);
    }
    if (options.recycle?.rss !== undefined) throw new TypeError("recycle.rss is for workers that are processes; kind is 'thread': see resourceLimits");
  }
  const size = settleSize(options.size ?? {});
  const concurrency = checkInteger('concurrency', options.concurrency ?? 1, 1, CONCURRENCY_MAX);
  const root = resolve(options.root ?? '.');
  const { sources, limits } = settleHandlers(handlers, root);
  const execArgv = [...(options.execArgv ?? [])];
  if (kind === 'process' && options.resourceLimits !== undefined) execArgv.push(...limitArguments(options.resourceLimits));
  const settings: Settings = {
    name: options.name ?? 'pool',
    handler: handler === undefined ? null : fileOf(handler, root),
    sources,
    limits,
    root,
    kind,
    concurrency,
    credit: checkInteger('credit', options.credit ?? CREDIT_MAX, 0, CREDIT_MAX),
    queueMax: options.queueMax === 'auto' ? 'auto' : checkInteger('queueMax', options.queueMax ?? 10_000, 0, Infinity),
    queueBytesMax: checkInteger('queueBytesMax', options.queueBytesMax ?? 67_108_864, 0, Infinity),
    deadlines: {
      queue: duration('deadlines.queue', options.deadlines?.queue ?? Infinity),
      run: duration('deadlines.run', options.deadlines?.run ?? 60_000),
      total: duration('deadlines.total', options.deadlines?.total ?? Infinity),
    },
    retry: settleRetry(options.retry),
    recycle: {
      messages: checkInteger('recycle.messages', options.recycle?.messages ?? Infinity, 1, Infinity),
      age: duration('recycle.age', options.recycle?.age ?? Infinity),
      rss: checkInteger('recycle.rss', options.recycle?.rss ?? Infinity, 1, Infinity),
      errors: checkInteger('recycle.errors', options.recycle?.errors ?? Infinity, 1, Infinity),
    },
    idleMax: duration('idleMax', options.idleMax ?? 60_000),
    startMax: duration('startMax', options.startMax ?? 30_000),
    killGrace: duration('killGrace', options.killGrace ?? 300),
    data: encodeData(options.data),
    start: options.start === undefined ? null : fileOf(options.start, root),
    env: { ...(options.env ?? process.env) },
    cwd: options.cwd,
    argv: options.argv ?? [],
    execArgv,
    runtime: options.runtime ?? process.execPath,
    command: command ?? null,
    resourceLimits: options.resourceLimits ?? null,
  };
  return { settings, size };
}

/** Encodes the `data` option. */
export function encodeData(data: unknown): string | null {
  return data === undefined ? null : Buffer.from(encode(data)).toString('base64');
}

/** Validates the size of a pool and fills in defaults. */
export function settleSize(size: { min?: number; max?: number }): Size {
  known('size', size, ['min', 'max']);
  const { min = 1, max = Math.max(min, availableParallelism()) } = size;
  checkInteger('size.max', max, 1, WORKERS_MAX);
  return { min: checkInteger('size.min', min, 0, max), max };
}

function settleHandlers(handlers: PoolOptions['handlers'], root: string): Pick<Settings, 'sources' | 'limits'> {
  const limits = new Map<string, number>();
  if (handlers === undefined) return { sources: null, limits };
  const sources: Record<string, HandlerSource> = Object.create(null);
  for (const [type, option] of Object.entries(handlers)) {
    if (typeof option === 'string' || option instanceof URL) {
      sources[type] = { file: fileOf(option, root), export: null };
      continue;
    }
    known(`handlers.${type}`, option, 'source' in Object(option) ? ['source', 'concurrency'] : ['file', 'export', 'concurrency']);
    if (option === undefined || ('source' in option ? typeof option.source !== 'string' : !isFile(option.file))) {
      throw new TypeError(`handlers.${type} is a file, { file, export } or { source }, not ${JSON.stringify(option)}`);
    }
    if ('source' in option) sources[type] = { source: option.source };
    else sources[type] = { file: fileOf(option.file, root), export: option.export ?? null };
    if (option.concurrency !== undefined) limits.set(type, checkInteger(`handlers.${type}.concurrency`, option.concurrency, 1, Infinity));
  }
  return { sources, limits };
}

function settleRetry(retry: RetryOptions | undefined): Required<RetryOptions> {
  const after = retry?.after ?? ['crash'];
  for (const cause of after) {
    if (!['crash', 'deadline', 'error'].includes(cause)) throw new TypeError(`retry.after has 'crash', 'deadline' and 'error', not ${JSON.stringify(cause)}`);
  }
  return { attempts: checkInteger('retry.attempts', retry?.attempts ?? 1, 1, 1_000), after, backoff: duration('retry.backoff', retry?.backoff ?? 0) };
}

/** Validates the keys of an option that is an object, if given: a misspelt key would otherwise be ignored. */
function known(name: string, value: unknown, keys: readonly string[]): void {
  if (value === undefined) return;
  if (typeof value !== 'object' || value === null) throw new TypeError(`${name} is an object of ${keys.join(', ')}, not ${JSON.stringify(value)}`);
  for (const key of Object.keys(value)) {
    if (!keys.includes(key)) throw new TypeError(`${name} has no ${JSON.stringify(key)}; there are ${keys.join(', ')}`);
  }
}

function isFile(file: unknown): boolean {
  return typeof file === 'string' || file instanceof URL;
}

/** The path of a handler file. */
export function fileOf(file: string | URL, root: string): string {
  if (file instanceof URL || file.startsWith('file:')) return fileURLToPath(file);
  return resolve(root, file);
}

function limitArguments({ maxOldGenerationSizeMb, maxYoungGenerationSizeMb, stackSizeMb }: ResourceLimits): string[] {
  if (process.versions['bun'] !== undefined) throw new TypeError('resourceLimits of processes are those of Node; Bun has none');
  const args: string[] = [];
  if (maxOldGenerationSizeMb !== undefined) args.push(`--max-old-space-size=${maxOldGenerationSizeMb}`);
  if (maxYoungGenerationSizeMb !== undefined) args.push(`--max-semi-space-size=${Math.max(1, Math.round(maxYoungGenerationSizeMb / 3))}`);
  if (stackSizeMb !== undefined) args.push(`--stack-size=${Math.round(stackSizeMb * 1024)}`);
  return args;
}

function checkInteger(name: string, value: number, min: number, max: number): number {
  if ((Number.isInteger(value) || value === Infinity) && value >= min && value <= max) return value;
  const bounds = max === Infinity ? `of at least ${min}` : `from ${min} to ${max}`;
  throw new RangeError(`${name} is a whole number ${bounds}, not ${typeof value === 'number' ? value : JSON.stringify(value)}`);
}

/** Longest duration supported by timers of the runtime. */
export const DURATION_MAX = 2_147_483_647;

/** Validates a number of milliseconds. */
export function duration(name: string, value: number): number {
  if (typeof value === 'number' && ((value >= 0 && value <= DURATION_MAX) || value === Infinity)) return value;
  throw new RangeError(`${name} is milliseconds from 0 to ${DURATION_MAX}, or Infinity, not ${typeof value === 'number' ? value : JSON.stringify(value)}`);
}
