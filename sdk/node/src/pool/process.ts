/** A worker process: frames on a socket, the shared page in a memory file, the bell on another socket. */
import { spawn, type ChildProcess } from 'node:child_process';
import { readFileSync } from 'node:fs';
import type { Duplex } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Socket } from 'node:net';
import type { Bytes } from '../wire.js';
import { PROTOCOL } from '../wire.js';
import { newDoorbell } from './doorbell.js';
import { Lines, type Host, type HostEvents } from './host.js';
import { SharedPage, givePageFile, takePageFile, type PageFile } from './page.js';
import type { Settings } from './options.js';

const WORKER = fileURLToPath(new URL('../worker.js', import.meta.url));
/** Unit of `/proc/PID/statm`, in bytes. */
const SYSTEM_PAGE_BYTES = 4_096;

/** How long to read a worker's output after its end at most, and how long a worker without a link may live. */
const LAST_WORDS_MS = 200;

/** Descriptor numbers in the worker. */
const LINK_FD = 3;
const BELL_FD = 4;
const PAGE_FD = 5;

/** Starts a worker process. */
export function startProcess(settings: Settings, generation: number, events: HostEvents): Host {
  const file = settings.command === null ? takePageFile() : null;
  const page = file === null ? null : new SharedPage(file.memory);
  const env: Record<string, string | undefined> = {
    ...settings.env,
    // This program may itself be a worker and have these set.
    FOREBAY_PAGE_FD: undefined,
    FOREBAY_BELL_FD: undefined,
    FOREBAY_PROTOCOL: String(PROTOCOL),
    FOREBAY_LINK_FD: String(LINK_FD),
    FOREBAY_GENERATION: String(generation),
    FOREBAY_PARENT: String(process.pid),
  };
  if (file !== null) Object.assign(env, { FOREBAY_PAGE_FD: String(PAGE_FD), FOREBAY_BELL_FD: String(BELL_FD) });
  const doorbell = file === null ? null : newDoorbell();
  const [command, ...args] = settings.command ?? [settings.runtime, ...settings.execArgv, WORKER, ...settings.argv];
  const child = spawn(command!, args, {
    cwd: settings.cwd,
    env,
    // In a process group of its own: it is killed with all its children, and a terminal's Ctrl-C does not reach it.
    detached: true,
    stdio: ['ignore', 'inherit', 'pipe', 'pipe', ...(file === null ? [] : [doorbell!.stdio, file.fd])],
  });
  const lines = new Lines((text) => events.line(text));
  if (child.pid === undefined) {
    doorbell?.close();
    return failedHost(child, file, lines, events);
  }
  const link = child.stdio[LINK_FD] as Duplex as Socket;
  const bell = doorbell?.open(child.stdio[BELL_FD] as Duplex as Socket | null, () => events.rung());
  /** Counts down the exit and the ends of both streams, in any order. */
  let open = 3;
  let exit: [exitCode: number | null, signal: string | null] = [null, null];
  let isOver = false;
  let timer: NodeJS.Timeout | undefined;

  function finish(): void {
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
    // A worker without a link is useless. Usually it has ended, and its exit is reported next.
    if (timer === undefined) timer = setTimeout(() => signalGroup('SIGKILL'), LAST_WORDS_MS).unref();
    finish();
  });
  // An error on the link also ends the worker.
  link.on('error', () => {});
  child.stderr!.setEncoding('utf8');
  child.stderr!.on('data', (text: string) => lines.push(text));
  child.stderr!.on('close', finish);
  child.once('exit', (exitCode, signal) => {
    exit = [exitCode, signal];
    signalGroup('SIGKILL');
    // Children of the worker in other process groups may have inherited its descriptors, so the streams need not end.
    clearTimeout(timer);
    timer = setTimeout(() => {
      link.destroy();
      child.stderr!.destroy();
    }, LAST_WORDS_MS).unref();
    finish();
  });
  // Emitted for a signal that could not be sent, for example because the process has ended.
  child.on('error', () => {});
  child.unref();
  for (const stream of [link, bell, child.stderr as unknown as Socket]) stream?.unref();

  function signalGroup(signal: NodeJS.Signals): void {
    try {
      process.kill(-child.pid!, signal);
    } catch {
      // The group has already ended.
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

/** The program does not exist, or the system cannot start another process: the error is reported as the worker's end. */
function failedHost(child: ChildProcess, file: PageFile | null, lines: Lines, events: HostEvents): Host {
  let isOver = false;
  // Node creates streams even for some processes that never started; Bun does not.
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
