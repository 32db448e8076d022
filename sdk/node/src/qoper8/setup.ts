/** What a pool of QOper8 tells each of its workers, and how arguments with functions in them get there. */

/** Where the handler of a type of messages is, as it is written in `handlersByMessageType`. */
export type HandlerEntry =
  | { readonly module: string; readonly path?: string }
  /** The body of a function of `message` and `finished`. */
  | { readonly text: string };

/** The module that each worker begins with. */
export interface StartupModule {
  readonly module: string;
  /** The folder that `module` is in; the current one unless you say otherwise. */
  readonly path?: string;
  /** What its function is called with. Functions in it are sent as their text: they know nothing of what is around them. */
  readonly arguments?: unknown;
}

/** A database for `this.mgdbx`, `this.use` and `this.glsdb` of handlers. */
export interface DatabaseOption {
  /** The type that glsdb is made with. */
  readonly type?: string;
  /** What `open` of the connection is called with. */
  readonly open: Readonly<Record<string, unknown>>;
}

/** `ctx.worker.data` of a worker. */
export interface Setup {
  /** The id of worker 1. */
  readonly firstId: number;
  /** The type of messages that no program can send. */
  readonly control: string;
  readonly handlers: readonly (readonly [type: string, entry: HandlerEntry])[];
  readonly onStartup: { readonly module: string; readonly path: string | null; readonly packed: Packed } | null;
  readonly mgdbx: DatabaseOption | null;
  readonly logging: boolean;
  readonly cacheExpiryTime: number;
  readonly checkInterval: number;
}

/** What is asked of a worker besides messages. */
export type Control =
  | { readonly ask: 'stats' }
  | { readonly ask: 'configure'; readonly logging: boolean; readonly handlers: Setup['handlers'] };

/** What one worker says of itself. */
export interface WorkerReport {
  readonly pid: number;
  readonly uptime: string;
  readonly noOfMessages: number;
  /** MB, as texts with two digits. */
  readonly memory: { readonly rss: string; readonly heapTotal: string; readonly heapUsed: string };
  /** Replies and parts that came after their message had been answered. */
  readonly ignoredReplies: number;
}

/** A value, and the texts of the functions in it with the way to each. */
export interface Packed {
  readonly value: unknown;
  readonly functions: readonly { readonly way: readonly string[]; readonly text: string }[];
}

/** Deeper members are sent as they are. */
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

/** The function of a text: `function () {}`, `() => {}`, `class {}`, or a method as it stands in an object. */
function functionOf(text: string): unknown {
  try {
    return new Function(`return (${text}\n)`)() as unknown;
  } catch {
    const { method } = new Function(`return { method: Object.values({ ${text}\n })[0] }`)() as { method: unknown };
    return method;
  }
}

/** For how long something has been there: `0 days 0:00:07`. */
export function upTime(sinceMs: number): string {
  const seconds = Math.floor((Date.now() - sinceMs) / 1000);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${Math.floor(seconds / 86_400)} days ${Math.floor(seconds / 3_600) % 24}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
}

/** Bytes as MB with two digits. */
export function memoryOf({ rss, heapTotal, heapUsed }: { rss: number; heapTotal: number; heapUsed: number }): WorkerReport['memory'] {
  const mb = (bytes: number): string => (bytes / 1_048_576).toFixed(2);
  return { rss: mb(rss), heapTotal: mb(heapTotal), heapUsed: mb(heapUsed) };
}

/** An error as QOper8 gives it: JSON of its stack, its message and its own members. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return JSON.stringify({ message: String(error) });
  const { stack, message } = error;
  try {
    return JSON.stringify(Object.assign({ stack, message }, error));
  } catch {
    return JSON.stringify({ stack, message });
  }
}
