// How far `forebay load` goes: connections held at once, and memory over many requests. Generator and server (Forebay's `/local`) are
// processes of their own, each with its own limit of open files.

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { forebay } from './forebay.mjs';
import { get } from './http.mjs';
import { launch, runToEnd, stop } from './processes.mjs';
import { atLeast, atMost, row } from './rows.mjs';

const SPARE_FILES = 100; // what a process has open besides its connections
const LOOK_EVERY_MS = 100;

/** The limit of open files according to the shell: a number or Infinity. */
function openFilesMax() {
  const text = execFileSync('sh', ['-c', 'ulimit -Hn'], { encoding: 'utf8' }).trim();
  return text === 'unlimited' ? Number.POSITIVE_INFINITY : Number(text);
}

/** The number of local ports for connections, from /proc. */
function localPorts() {
  const [low, high] = readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').trim().split(/\s+/).map(Number);
  return high - low + 1;
}

/** Explains in a sentence why the machine cannot hold so many connections; null if it can. */
export function lacking(connections, { files = openFilesMax(), ports = localPorts() } = {}) {
  if (files < connections + SPARE_FILES) {
    return `${connections} connections need ulimit -n ${connections + SPARE_FILES}, the hard limit is ${files}`;
  }
  if (ports < connections) {
    return `${connections} connections need as many local ports, net.ipv4.ip_local_port_range has ${ports}`;
  }
  return null;
}

/** Wraps `command` in a shell that raises the limit of open files before it runs it. */
function withFiles(files, command, args) {
  return ['sh', ['-c', 'ulimit -n "$0" && exec "$@"', String(files), command, ...args.map(String)]];
}

/** Files that a process has open, sockets included. */
const openFiles = (pid) => readdirSync(`/proc/${pid}/fd`).length;

/** Most connections that the server has open until `ended` resolves: the files that it has open beyond those of before. */
async function mostOpen(server, ended) {
  const before = openFiles(server.process.pid);
  let [most, running] = [0, true];
  const done = () => {
    running = false;
  };
  ended.then(done, done);
  while (running) {
    most = Math.max(most, openFiles(server.process.pid) - before);
    await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))]);
  }
  return most;
}

/** Requests that the server has answered, as its metrics say. */
async function answered(server) {
  const { body } = await get(`${server.adminUrl}/metrics`);
  const counts = [...body.matchAll(/^forebay_requests_total\{[^}]*\} (\d+)/gm)];
  return counts.reduce((sum, [, count]) => sum + Number(count), 0);
}

/** A row: connections that are held at once of so many that are asked for, each with a request a second. */
export async function heldConnections({ binary, folder, progress }, { connections, seconds }) {
  const what = `connections held at once by forebay load, of ${connections}`;
  const lack = lacking(connections);
  if (lack) return row({ what, bar: atLeast(connections), samples: [], of: 1, notes: [`(${lack})`] });
  const files = connections + SPARE_FILES;
  const server = await forebay(binary, 'Forebay', { connections_max: connections + SPARE_FILES }).start(folder);
  try {
    progress(what);
    const options = ['-c', connections, '-t', 1, '-d', `${seconds}s`, '--warmup', '2s', '--rate', connections, '--json', '--quiet'];
    const running = runToEnd('forebay load', ...withFiles(files, binary, ['load', `${server.url}/local`, ...options]));
    const most = await mostOpen(server, running);
    const { requests } = JSON.parse(await running);
    const notes = requests.failed > 0 ? [`(${requests.failed} of ${requests.total} requests failed)`] : [];
    return row({ what, bar: atLeast(connections), samples: [most], notes });
  } finally {
    await stop(server.process);
  }
}

/** Current and peak resident memory of a process (proc_pid_status(5)); null if it has ended. */
function memory_bytes(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/status`, 'utf8');
    const bytes = (name) => Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]) * 1024;
    const found = { now: bytes('VmRSS'), most: bytes('VmHWM') };
    return Number.isFinite(found.most) ? found : null;
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return null;
    throw error;
  }
}

/**
 * The ratio of a process's final memory to its memory after half of `requests`. By then, everything that may grow has done so: the
 * buffers with the first requests, and the timeline with the first half minute, after which it merges its windows. `looks` are in order,
 * each `{made, memory}`; null if none is in the second half.
 */
export function memoryGrowth(looks, requests) {
  const half = looks.find(({ made }) => made >= requests / 2);
  return half ? looks.at(-1).memory.now / half.memory.now : null;
}

/** Rows: the generator's memory at the end of so many requests, and how that is to the memory it had after half of them. */
export async function memoryOverRequests({ binary, folder, progress }, { requests }) {
  const server = await forebay(binary, 'Forebay').start(folder);
  const amount = requests.toLocaleString('en');
  try {
    progress(`memory over ${amount} requests`);
    const options = ['-c', 64, '-t', 1, '-n', requests, '--json', '--quiet'];
    const generator = launch('forebay load', binary, ['load', `${server.url}/local`, ...options.map(String)]);
    const looks = [];
    while (!generator.end) {
      const made = await answered(server);
      const memory = memory_bytes(generator.pid);
      if (memory) looks.push({ made, memory });
      await Promise.race([generator.exited, new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))]);
    }
    const { code } = await generator.exited;
    const growth = memoryGrowth(looks, requests);
    if (code !== 0 || growth === null) throw generator.failure('failed');
    return [
      row({ what: `memory of forebay load after ${amount} requests, at most`, unit: 'MB', samples: [looks.at(-1).memory.most / 1e6] }),
      row({ what: `memory of forebay load after ${amount} requests : after half of them`, bar: atMost(1.1), samples: [growth] }),
    ];
  } finally {
    await stop(server.process);
  }
}
