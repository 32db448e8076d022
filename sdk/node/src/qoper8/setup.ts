/** The settings that a QOper8 pool sends to its workers, including arguments that contain functions. */

/** The location of a handler, as in `handlersByMessageType`. */
export type HandlerEntry =
  | { readonly module: string; readonly path?: string }
  /** The body of a function with the parameters `message` and `finished`. */
  | { readonly text: string };

/** A module that each worker runs first. */
export interface StartupModule {
  readonly module: string;
  /** The folder of `module`; the current directory by default. */
  readonly path?: string;
  /** The argument of its function. Functions in it are sent as source text, so they cannot refer to variables around them. */
  readonly arguments?: unknown;
}

/** Options of the database behind `this.mgdbx`, `this.use` and `this.glsdb` of handlers. */
export interface DatabaseOption {
  /** The `type` option of glsdb. */
  readonly type?: string;
  /** The argument of the connection's `open`. */
  readonly open: Readonly<Record<string, unknown>>;
}

/** The `ctx.worker.data` of a worker. */
export interface Setup {
  /** The id of worker 1. */
  readonly firstId: number;
  /** A random message type for internal requests, which no program can send. */
  readonly control: string;
  readonly handlers: readonly (readonly [type: string, entry: HandlerEntry])[];
  readonly onStartup: { readonly module: string; readonly path: string | null; readonly packed: Packed } | null;
  readonly mgdbx: DatabaseOption | null;
  readonly logging: boolean;
  readonly cacheExpiryTime: number;
  readonly checkInterval: number;
}

/** Internal requests to a worker. */
export type Control =
  | { readonly ask: 'stats' }
  | { readonly ask: 'configure'; readonly logging: boolean; readonly handlers: Setup['handlers'] };

/** A worker's report about itself. */
export interface WorkerReport {
  readonly pid: number;
  readonly uptime: string;
  readonly noOfMessages: number;
  /** In MB, as text with two decimals. */
  readonly memory: { readonly rss: string; readonly heapTotal: string; readonly heapUsed: string };
  /** Replies and parts sent after the message had been answered. */
  readonly ignoredReplies: number;
}

/** A value without its functions, and their source texts with the path to each. */
export interface Packed {
  readonly value: unknown;
  readonly functions: readonly { readonly way: readonly string[]; readonly text: string }[];
}

/** Members nested more deeply are sent as they are. */
const DEPTH_MAX = 32;

export function pack(value: unknown): Packed {
  const functions: { way: string[]; text: string }[] = [];
  return { value: without(value, [], functions), functions };
}

function without(value: unknown, way: string[], functions: { way: string[]; text: string }[]): unknown {
  if (typeof value === 'function') {
    functions.push({ way, text: Function.prototype.toString.call(value) });
    return null;
  }
  if (typeof value !== 'object' || value === null || way.length === DEPTH_MAX) return value;
  if (Array.isArray(value)) return value.map((member, index) => without(member, [...way, String(index)], functions));
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, without(member, [...way, name], functions)]));
}

export function unpack({ value, functions }: Packed): unknown {
  let root: unknown = value;
  for (const { way, text } of functions) {
    const made = functionOf(text);
    let place: any = root;
    for (const name of way.slice(0, -1)) place = place[name];
    if (way.length === 0) root = made;
    else place[way.at(-1)!] = made;
  }
  return root;
}

/** Evaluates source text: `function () {}`, `() => {}`, `class {}`, or a method as written in an object. */
function functionOf(text: string): unknown {
  try {
    return new Function(`return (${text}\n)`)() as unknown;
  } catch {
    const { method } = new Function(`return { method: Object.values({ ${text}\n })[0] }`)() as { method: unknown };
    return method;
  }
}

/** The time since `sinceMs`, such as `0 days 0:00:07`. */
export function upTime(sinceMs: number): string {
  const seconds = Math.floor((Date.now() - sinceMs) / 1000);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${Math.floor(seconds / 86_400)} days ${Math.floor(seconds / 3_600) % 24}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}

/** Memory sizes as MB with two decimals. */
export function memoryOf({ rss, heapTotal, heapUsed }: { rss: number; heapTotal: number; heapUsed: number }): WorkerReport['memory'] {
  const mb = (bytes: number): string => (bytes / 1_048_576).toFixed(2);
  return { rss: mb(rss), heapTotal: mb(heapTotal), heapUsed: mb(heapUsed) };
}

/** An error in QOper8's form: JSON of its stack, its message and its own members. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return JSON.stringify({ message: String(error) });
  const { stack, message } = error;
  try {
    return JSON.stringify(Object.assign({ stack, message }, error));
  } catch {
    return JSON.stringify({ stack, message });
  }
}
