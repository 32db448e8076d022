/** The life cycle of every worker process, whatever its protocol: loads the handler, handles signals, exits on uncaught errors. */
import { pathToFileURL } from 'node:url';
import type { WorkerContext } from '../context.js';
import { loadHandler, type Handler, type Hook, type Listening, type LoadedHandler } from '../handler.js';
import { pageAddon } from '../page-addon.js';
import { isEndedCall } from './calls.js';
import type { Init } from './engine.js';
import { SERVER_MODULES, onResponseUse, onServerImport } from '../loader/first-use.js';
import { tableOf } from '../messages.js';
import { awaitListening } from '../node-http/listening.js';
import { standInFor } from '../node-http/server.js';
import { rememberBodies } from '../web.js';
import { report } from './report.js';

/** Limit for parsing a file once more. */
const CHECK_TIMEOUT_MS = 5000;

/** A handler whose start hooks have run. */
export interface StartedHandler {
  readonly handle: Handler;
  /** Whether it waits instead of blocking. */
  readonly waits: boolean;
  /** Stop hooks in the order in which they run. */
  readonly stop: readonly Hook[];
}

/** Runs the startup module, if there is one, then `load`, then the start hooks. */
export async function start(
  startUp: string | null,
  load: () => Promise<LoadedHandler>,
  context: WorkerContext,
): Promise<StartedHandler> {
  const first = startUp === null ? null : startHooks(await import(pathToFileURL(startUp).href));
  const handler = await load();
  for (const hook of [...(first?.start ?? []), ...handler.start]) await hook(context);
  return { handle: handler.handle, waits: handler.waits, stop: [...handler.stop, ...(first?.stop ?? [])] };
}

/** Loads the handlers named in INIT: message handlers, or a module that handles requests or messages. */
export async function loadHandlers({ messages, handler, library, load }: Init): Promise<LoadedHandler> {
  if (library !== true) return loadFile(handler, true);
  const { answerMessages, loadMessages } = await import('./messages.js');
  if (messages !== undefined) return loadMessages(messages, load ?? []);
  const loaded = await loadFile(handler);
  const table = tableOf(loaded.handle);
  return table === undefined ? loaded : { ...answerMessages(table), start: loaded.start, stop: loaded.stop };
}

/** Imports a handler module. `mayListen`: it may be an application that listens. */
export async function loadFile(file: string | null, mayListen = false): Promise<LoadedHandler> {
  if (file === null) throw new TypeError('the pool names no handler file');
  const listening = mayListen ? await standIn() : undefined;
  const { exit } = process;
  process.exit = (code) => {
    report('the application has called process.exit() while it was loaded, so its worker ends', new Error(`process.exit(${code ?? ''})`));
    return exit(code);
  };
  try {
    return await loadHandler(await import(pathToFileURL(file).href), file, listening);
  } catch (error) {
    if (error instanceof SyntaxError) await locate(error, file);
    throw error;
  } finally {
    process.exit = exit;
  }
}

/** Prepares for an application: its `listen` opens no socket, and its responses remember their bodies. */
async function standIn(): Promise<Listening> {
  if (process.versions['bun'] === undefined) {
    onServerImport(standInFor);
    onResponseUse(rememberBodies);
  } else {
    rememberBodies();
    for (const name of SERVER_MODULES) standInFor(name);
    (await import('../node-http/bun-server.js')).standInForBun();
  }
  return awaitListening();
}

/** Adds the position to a syntax error whose stack has none: Node tells it only where it prints the error itself. */
async function locate(error: SyntaxError, file: string): Promise<void> {
  if (error.stack?.includes('file:') === true) return;
  const report = process.versions['bun'] === undefined ? await checkLastLoaded() : '';
  if (report.includes(error.message)) error.stack = report;
  else if (!error.message.includes(file)) error.message += ` (in ${file}, or in what it imports)`;
}

/** The error that Node prints when it cannot parse the file that was loaded last. */
async function checkLastLoaded(): Promise<string> {
  const { spawnSync } = await import('node:child_process');
  const { lastLoaded } = await import('../loader/hooks.js');
  return spawnSync(process.execPath, ['--check', lastLoaded], { encoding: 'utf8', timeout: CHECK_TIMEOUT_MS }).stderr.trim();
}

/** Makes SIGTERM drain the worker, and uncaught errors end it. */
export function handleSignals(drain: () => void): void {
  // A terminal's Ctrl-C reaches the whole process group, but the server drains its workers itself.
  process.on('SIGINT', () => {});
  process.on('SIGTERM', drain);
  for (const event of ['uncaughtException', 'unhandledRejection'] as const) {
    process.on(event, (error) => {
      if (isEndedCall(error)) return report('a handler did not await a database call', error);
      report(`${event}, this worker ends`, error);
      process.exit(1);
    });
  }
}

/**
 * Makes this process end with the one that started it, even if its event loop is blocked. Without the addon, the end of the link has to do.
 */
export function dieWithParent(parent: number): void {
  try {
    pageAddon().dieWithParent();
  } catch {
    return;
  }
  if (process.ppid !== parent) process.exit(0);
}

/** The value of an environment variable that the server sets. */
export function environment(name: string): string {
  const value = process.env[name];
  if (value !== undefined) return value;
  return exitWithError(`${name} is not set: this program is started by \`forebay serve\``);
}

export function exitWithError(why: string): never {
  process.stderr.write(`forebay: ${why}\n`);
  process.exit(1);
}

/** The hooks of a startup module: `onStart` or its default function, and `onStop`. */
function startHooks(module: Record<string, unknown>): { start: Hook[]; stop: Hook[] } {
  const start = module['onStart'] ?? module['default'];
  const stop = module['onStop'];
  return {
    start: typeof start === 'function' ? [start as Hook] : [],
    stop: typeof stop === 'function' ? [stop as Hook] : [],
  };
}
