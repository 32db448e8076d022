/** What a pool may be told, and what holds where it is not. */
import { availableParallelism } from 'node:os';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ResourceLimits } from 'node:worker_threads';
import { encode } from '../message.js';
import type { HandlerSource } from '../worker/messages.js';

/** Milliseconds that something may take; `Infinity` for as long as it wants. */
export interface Deadlines {
  /** Waiting for a worker. `Infinity` unless you say otherwise. */
  queue?: number;
  /** Being run. 60,000 unless you say otherwise: whatever runs longer is stopped, with its worker. */
  run?: number;
  /** Both together. `Infinity` unless you say otherwise. */
  total?: number;
}

/** Where the handler of a type of messages is. */
export type HandlerOption =
  | string
  | URL
  | {
      file: string | URL;
      /** The export that is the handler: `default`, else `handler`, unless you say otherwise. */
      export?: string;
      /** How many messages of the type are run at a time, in all workers; any number unless you say otherwise. */
      concurrency?: number;
    }
  | {
      /** The body of a function of `message` and `ctx`. */
      source: string;
      concurrency?: number;
    };

/** When messages are run again. */
export interface RetryOptions {
  /** How often a message is run at most. 1: never again. */
  attempts: number;
  /** After what: its worker ended while it ran (`crash`), it ran for too long (`deadline`), its handler threw (`error`). `['crash']` unless you say otherwise. */
  after?: readonly RetryCause[];
  /** Milliseconds before the second run, doubled before each further one up to a minute, half of it by chance. 0 unless you say otherwise. */
  backoff?: number;
}

export type RetryCause = 'crash' | 'deadline' | 'error';

/** When a worker is replaced; another is ready before it goes. */
export interface RecycleOptions {
  /** After so many messages. */
  messages?: number;
  /** When it is so old, in milliseconds, or up to a tenth older. */
  age?: number;
  /** When it takes so many bytes of memory. Processes only. */
  rss?: number;
  /** After so many handlers that threw. */
  errors?: number;
}

export interface PoolOptions {
  /** The pool's name in errors and in `ctx.worker.pool`; `pool` unless you say otherwise. */
  name?: string;
  /**
   * A module as pools of the server have it. One of `messages()` answers messages by their type. One that answers requests (a router, a function `(request, ctx)`, an object with `fetch`) gets a
   * message of type `resize` as `POST /resize`, with the message as its JSON body.
   */
  handler?: string | URL;
  /** Functions `(message, ctx)` by type of message, each loaded in a worker when the first message of its type comes. */
  handlers?: Readonly<Record<string, HandlerOption>>;
  /** The folder of relative files; the current one unless you say otherwise. */
  root?: string;
  /** Whether workers are processes or threads of this one; processes unless you say otherwise. */
  kind?: 'process' | 'thread';
  /** Workers there are at least (1) and at most (as many as cores). With `min: 0` none is started before the first message. */
  size?: { min?: number; max?: number };
  /** Messages that a worker runs at a time; 1 unless you say otherwise, so that handlers may block. */
  concurrency?: number;
  /** Messages that wait in a worker's inbox beyond those that it runs, at most, as far as they take a millisecond in all; 255 unless you say otherwise, 0 for none. */
  credit?: number;
  /** Messages that wait, at most; 10,000 unless you say otherwise. `auto`: the square of the most workers. With 0 a message is accepted only if a worker can run it. */
  queueMax?: number | 'auto';
  /** What waits takes at most so many bytes; 64 MiB unless you say otherwise. */
  queueBytesMax?: number;
  deadlines?: Deadlines;
  retry?: RetryOptions;
  recycle?: RecycleOptions;
  /** Milliseconds after which a worker beyond `size.min` without work ends; 60,000 unless you say otherwise. */
  idleMax?: number;
  /** Milliseconds that a worker has to become ready; 30,000 unless you say otherwise. */
  startMax?: number;
  /** Milliseconds that a handler has to heed its signal, and then that a worker has to heed SIGTERM; 300 unless you say otherwise. */
  killGrace?: number;
  /** What `ctx.worker.data` is in each worker. */
  data?: unknown;
  /** A module whose `onStart(ctx)` runs in each worker before its first message, and `onStop(ctx)` after its last. */
  start?: string | URL;
  /** The workers' environment; that of this process unless you say otherwise. */
  env?: Readonly<Record<string, string | undefined>>;
  /** The workers' current folder. Processes only. */
  cwd?: string;
  /** Arguments of the workers' program, and of its runtime. */
  argv?: readonly string[];
  execArgv?: readonly string[];
  /** The runtime's program; the one that runs this process unless you say otherwise. Processes only. */
  runtime?: string;
  /** A program that speaks the worker protocol, with its arguments, in the place of the SDK's. */
  command?: readonly string[];
  /** Limits of memory, as of `node:worker_threads`. */
  resourceLimits?: ResourceLimits;
}

/** Options with everything filled in. Durations in milliseconds. */
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
  /** In base64; `null` where there is none. */
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

/** How many workers there may be. */
export interface Size {
  readonly min: number;
  readonly max: number;
}

/** Most workers of a pool. */
const WORKERS_MAX = 1_024;
const CONCURRENCY_MAX = 2_048;
const CREDIT_MAX = 255;

const KEYS = new Set<keyof PoolOptions>([
  'name', 'handler', 'handlers', 'root', 'kind', 'size', 'concurrency', 'credit', 'queueMax', 'queueBytesMax', 'deadlines', 'retry', 'recycle', 'idleMax', 'startMax', 'killGrace',
  'data', 'start', 'env', 'cwd', 'argv', 'execArgv', 'runtime', 'command', 'resourceLimits',
]);
/** The members of options that are objects. */
const PARTS = {
  deadlines: ['queue', 'run', 'total'],
  retry: ['attempts', 'after', 'backoff'],
  recycle: ['messages', 'age', 'rss', 'errors'],
  resourceLimits: ['maxOldGenerationSizeMb', 'maxYoungGenerationSizeMb', 'codeRangeSizeMb', 'stackSizeMb'],
} as const;

/** Checks options and fills in what they leave out; throws a TypeError or RangeError that names the option and what is accepted. */
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
  const concurrency = whole('concurrency', options.concurrency ?? 1, 1, CONCURRENCY_MAX);
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
    credit: whole('credit', options.credit ?? CREDIT_MAX, 0, CREDIT_MAX),
    queueMax: options.queueMax === 'auto' ? 'auto' : whole('queueMax', options.queueMax ?? 10_000, 0, Infinity),
    queueBytesMax: whole('queueBytesMax', options.queueBytesMax ?? 67_108_864, 0, Infinity),
    deadlines: {
      queue: duration('deadlines.queue', options.deadlines?.queue ?? Infinity),
      run: duration('deadlines.run', options.deadlines?.run ?? 60_000),
      total: duration('deadlines.total', options.deadlines?.total ?? Infinity),
    },
    retry: settleRetry(options.retry),
    recycle: {
      messages: whole('recycle.messages', options.recycle?.messages ?? Infinity, 1, Infinity),
      age: duration('recycle.age', options.recycle?.age ?? Infinity),
      rss: whole('recycle.rss', options.recycle?.rss ?? Infinity, 1, Infinity),
      errors: whole('recycle.errors', options.recycle?.errors ?? Infinity, 1, Infinity),
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

/** What `data` is sent as. */
export function encodeData(data: unknown): string | null {
  return data === undefined ? null : Buffer.from(encode(data)).toString('base64');
}

/** The sizes that a pool may have. */
export function settleSize(size: { min?: number; max?: number }): Size {
  known('size', size, ['min', 'max']);
  const { min = 1, max = Math.max(min, availableParallelism()) } = size;
  whole('size.max', max, 1, WORKERS_MAX);
  return { min: whole('size.min', min, 0, max), max };
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
    if (option.concurrency !== undefined) limits.set(type, whole(`handlers.${type}.concurrency`, option.concurrency, 1, Infinity));
  }
  return { sources, limits };
}

function settleRetry(retry: RetryOptions | undefined): Required<RetryOptions> {
  const after = retry?.after ?? ['crash'];
  for (const cause of after) {
    if (!['crash', 'deadline', 'error'].includes(cause)) throw new TypeError(`retry.after has 'crash', 'deadline' and 'error', not ${JSON.stringify(cause)}`);
  }
  return { attempts: whole('retry.attempts', retry?.attempts ?? 1, 1, 1_000), after, backoff: duration('retry.backoff', retry?.backoff ?? 0) };
}

/** Checks an option that is an object, if it is given: members that are misspelt would go unheeded. */
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

/** The file of a handler, as a path. */
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

function whole(name: string, value: number, least: number, most: number): number {
  if ((Number.isInteger(value) || value === Infinity) && value >= least && value <= most) return value;
  const bounds = most === Infinity ? `of at least ${least}` : `from ${least} to ${most}`;
  throw new RangeError(`${name} is a whole number ${bounds}, not ${typeof value === 'number' ? value : JSON.stringify(value)}`);
}

/** Longest duration: what timers of the runtime take. */
export const DURATION_MAX = 2_147_483_647;

/** Checks a number of milliseconds. */
export function duration(name: string, value: number): number {
  if (typeof value === 'number' && ((value >= 0 && value <= DURATION_MAX) || value === Infinity)) return value;
  throw new RangeError(`${name} is milliseconds from 0 to ${DURATION_MAX}, or Infinity, not ${typeof value === 'number' ? value : JSON.stringify(value)}`);
}
