/**
 * The program that the server starts for each Node or Bun worker: opens the link, shakes hands, loads the handler, serves.
 */
import { pathToFileURL } from 'node:url';
import type { WorkerContext } from './context.js';
import { loadHandler, type Hook, type LoadedHandler } from './handler.js';
import { installResolver } from './loader/install.js';
import { unsupported } from './supported.js';
import { VERSION } from './version.js';
import { FAILED, HELLO, PROTOCOL, READY, frame } from './wire.js';
import { Engine, type Init } from './worker/engine.js';
import { openLink } from './worker/link.js';
import { Page } from './worker/page.js';
import { report } from './worker/report.js';

const complaint = unsupported(process.versions);
if (complaint !== undefined) giveUp(complaint);
/** INIT may arrive before this is done; the handler is imported after it. */
const resolver = installResolver();
const generation = Number(environment('FOREBAY_GENERATION'));
const page = Page.open(process.env['FOREBAY_PAGE_FD'], process.env['FOREBAY_BELL_FD'], generation);
const engine = new Engine(generation, page, (init) => void start(init), (status) => process.exit(status));
engine.link = await openLink(Number(environment('FOREBAY_LINK_FD')), engine);
engine.link.write(frame(HELLO, 0, generation, 0, 0, JSON.stringify(hello())));
// A terminal's Ctrl-C reaches the whole process group; the server drains its workers itself.
process.on('SIGINT', () => {});
process.on('SIGTERM', () => engine.drain());
for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
  process.on(event, (error) => {
    report(`${event}, this worker ends`, error);
    process.exit(1);
  });
}

function environment(name: string): string {
  const value = process.env[name];
  if (value !== undefined) return value;
  return giveUp(`${name} is not set: this program is started by \`forebay serve\``);
}

function giveUp(why: string): never {
  process.stderr.write(`forebay: ${why}\n`);
  process.exit(1);
}

function hello(): object {
  const bun = process.versions['bun'];
  const runtime = bun === undefined ? `node/${process.versions.node}` : `bun/${bun}`;
  return { protocol: PROTOCOL, sdk: `forebay-node/${VERSION}`, runtime, pid: process.pid, page: page !== null };
}

async function start(init: Init): Promise<void> {
  const worker = { id: init.worker, pool: init.pool, pid: process.pid };
  const context: WorkerContext = { state: Object.create(null), worker, log: engine.logOf(null) };
  try {
    await resolver;
    const first = init.start === null ? null : startHooks(await import(pathToFileURL(init.start).href));
    const handler = await load(init.handler);
    for (const hook of [...(first?.start ?? []), ...handler.start]) await hook(context);
    engine.serve(init, context, handler.handle, [...handler.stop, ...(first?.stop ?? [])]);
    engine.link.write(frame(READY, 0, generation, 0, 0));
  } catch (error) {
    const { message, stack } = error instanceof Error ? error : new Error(String(error));
    report('the worker cannot start', error);
    engine.link.write(frame(FAILED, 0, generation, 0, 0, JSON.stringify({ message, stack })));
    engine.endWhenSent(1);
  }
}

async function load(file: string | null): Promise<LoadedHandler> {
  if (file === null) throw new TypeError('the pool names no handler file');
  try {
    return loadHandler(await import(pathToFileURL(file).href), file);
  } catch (error) {
    // The stack of a syntax error names no file.
    if (error instanceof SyntaxError && !error.message.includes(file)) error.message += ` (in ${file}, or in what it imports)`;
    throw error;
  }
}

/** The hooks of a start-up module: `onStart` or its default function, and `onStop`. */
function startHooks(module: Record<string, unknown>): { start: Hook[]; stop: Hook[] } {
  const start = module['onStart'] ?? module['default'];
  const stop = module['onStop'];
  return {
    start: typeof start === 'function' ? [start as Hook] : [],
    stop: typeof stop === 'function' ? [stop as Hook] : [],
  };
}
