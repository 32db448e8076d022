/** A worker that is a process: frames on a socket, the page in a file of memory, its bell on another socket. */
import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Socket } from 'node:net';
import type { Bytes } from '../wire.js';
import { PROTOCOL } from '../wire.js';
import { newBell } from './bell.js';
import { Lines, type Host, type HostEvents } from './host.js';
import { SharedPage, givePageFile, takePageFile, type PageFile } from './page.js';
import type { Settings } from './options.js';

const WORKER = fileURLToPath(new URL('../worker.js', import.meta.url));
/** Bytes of a page in `/proc/PID/statm`. */
const SYSTEM_PAGE_BYTES = 4_096;

/** What a worker has written is read for so long after its end, if nothing else ends it; and so long it may live without its link. */
const LAST_WORDS_MS = 200;

/** Descriptors in the worker. */
const LINK_FD = 3;
const BELL_FD = 4;
const PAGE_FD = 5;

/** Starts a worker. */
export function startProcess(settings: Settings, generation: number, events: HostEvents): Host {
  const file = settings.command === null ? takePageFile() : null;
  const page = file === null ? null : new SharedPage(file.memory);
  const env: Record<string, string | undefined> = {
    ...settings.env,
    // This program may be a worker itself.
    FOREBAY_PAGE_FD: undefined,
    FOREBAY_BELL_FD: undefined,
    FOREBAY_PROTOCOL: String(PROTOCOL),
    FOREBAY_LINK_FD: String(LINK_FD),
    FOREBAY_GENERATION: String(generation),
    FOREBAY_PARENT: String(process.pid),
  };
  if (file !== null) Object.assign(env, { FOREBAY_PAGE_FD: String(PAGE_FD), FOREBAY_BELL_FD: String(BELL_FD) });
  const bells = file === null ? null : newBell();
  const [command, ...args] = settings.command ?? [settings.runtime, ...settings.execArgv, WORKER, ...settings.argv];
  const child = spawn(command!, args, {
    cwd: settings.cwd,
    env,
    // A group of its own: it is ended with all that it has started, and a terminal's Ctrl-C is the pool's affair.
    detached: true,
    stdio: ['ignore', 'inherit', 'pipe', 'pipe', ...(file === null ? [] : [bells!.stdio, file.fd])],
  });
  const lines = new Lines((text) => events.line(text));
  if (child.pid === undefined) {
    bells?.close();
    return neverStarted(child, file, lines, events);
  }
  const link = child.stdio[LINK_FD] as Duplex as Socket;
  const bell = bells?.open(child.stdio[BELL_FD] as Duplex as Socket | null, () => events.rung());
  /** The exit and the end of both streams, in whatever order they come. */
  let open = 3;
  let exit: [exitCode: number | null, signal: string | null] = [null, null];
  let isOver = false;
  let timer: NodeJS.Timeout | undefined;

  function over(): void {
    if (--open > 0 || isOver) return;
    isOver = true;
    clearTimeout(timer);
    bell?.destroy();
    lines.end();
    events.ended(...exit);
    if (file !== null) givePageFile(file);
  }

  link.on('data', (bytes: Bytes) => events.received(bytes));
  link.on('close', () => {
    // Without its link it is of no use to anybody; most often it has ended, and that is told next.
    if (timer === undefined) timer = setTimeout(() => signalGroup('SIGKILL'), LAST_WORDS_MS).unref();
    over();
  });
  // What breaks it ends the worker as well.
  link.on('error', () => {});
  child.stderr!.setEncoding('utf8');
  child.stderr!.on('data', (text: string) => lines.push(text));
  child.stderr!.on('close', over);
  child.once('exit', (exitCode, signal) => {
    exit = [exitCode, signal];
    signalGroup('SIGKILL');
    // What it has started may have its descriptors still, in another group: the streams need not end.
    clearTimeout(timer);
    timer = setTimeout(() => {
      link.destroy();
      child.stderr!.destroy();
    }, LAST_WORDS_MS).unref();
    over();
  });
  // A signal that could not be sent, as to one that has ended.
  child.on('error', () => {});
  child.unref();
  for (const stream of [link, bell, child.stderr as unknown as Socket]) stream?.unref();

  function signalGroup(signal: NodeJS.Signals): void {
    try {
      process.kill(-child.pid!, signal);
    } catch {
      // The group has ended.
    }
  }

  return {
    pid: child.pid,
    threadId: null,
    page,
    write(bytes) {
      if (!link.destroyed) link.write(bytes);
    },
    terminate: () => signalGroup('SIGTERM'),
    kill: () => signalGroup('SIGKILL'),
    rss() {
      try {
        return Number(readFileSync(`/proc/${child.pid}/statm`, 'latin1').split(' ')[1]) * SYSTEM_PAGE_BYTES;
      } catch {
        return null;
      }
    },
  };
}

/** There is no such program, or the system has no room for one more: what is told later is all that there is of it. */
function neverStarted(child: ChildProcess, file: PageFile | null, lines: Lines, events: HostEvents): Host {
  let isOver = false;
  // Node has made the streams of some that never started, and Bun none.
  for (const stream of child.stdio ?? []) stream?.destroy();
  child.on('error', (error) => {
    if (isOver) return;
    isOver = true;
    lines.push(`${error.message}\n`);
    lines.end();
    events.ended(null, null);
    if (file !== null) givePageFile(file);
  });
  return { pid: null, threadId: null, page: null, write() {}, terminate() {}, kill() {}, rss: () => null };
}
