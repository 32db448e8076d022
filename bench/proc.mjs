// Process information from the kernel: /proc of Linux (proc(5)).

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/**
 * Parses a /proc/PID/stat line. `own_us` is user and system time of the process, `cpu_us` includes the time of its children that ended and
 * were waited for. The kernel counts in ticks (10 ms nearly everywhere), so a difference of two readings is exact to one tick per process.
 */
export function parseStat(line) {
  // The command's name, in parentheses, may itself contain spaces and parentheses.
  const end = line.lastIndexOf(')');
  const fields = line.slice(end + 2).split(' ');
  const us = (...indexes) => (indexes.reduce((sum, index) => sum + Number(fields[index]), 0) * 1e6) / TICKS_PER_SECOND;
  return {
    pid: Number.parseInt(line, 10),
    parent: Number(fields[1]),
    started: fields[19],
    own_us: us(11, 12),
    cpu_us: us(11, 12, 13, 14),
  };
}

function stat(pid) {
  try {
    return parseStat(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch (error) {
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return null; // ended while we looked
    throw error;
  }
}

/**
 * When the process started, in the kernel's own format; null if there is no such process. With the pid it identifies a process uniquely.
 */
export function startTime(pid) {
  return stat(pid)?.started ?? null;
}

/** The process `root` and all its living descendants. */
export function processTree(root) {
  const children = new Map();
  let top = null;
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    const entry = stat(name);
    if (!entry) continue;
    if (entry.pid === root) top = entry;
    if (!children.has(entry.parent)) children.set(entry.parent, []);
    children.get(entry.parent).push(entry);
  }
  const found = top ? [top] : [];
  for (let i = 0; i < found.length; i += 1) found.push(...(children.get(found[i].pid) ?? []));
  return found;
}

/** CPU time of `root` and all its descendants since their start, in microseconds. */
export function treeCpu_us(root) {
  return processTree(root).reduce((sum, entry) => sum + entry.cpu_us, 0);
}

/** CPU time of one process without its children, in microseconds; 0 if it does not exist. */
export function ownCpu_us(pid) {
  return stat(pid)?.own_us ?? 0;
}

/** CPU time of this process's children that have ended, and of their children, in microseconds. */
export function endedChildrenCpu_us() {
  const line = readFileSync('/proc/self/stat', 'utf8');
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ');
  return ((Number(fields[13]) + Number(fields[14])) * 1e6) / TICKS_PER_SECOND;
}

/** Exact resident bytes of one process (smaps_rollup; the counters in stat and status lag behind by some pages per core). */
export function rss_bytes(pid) {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
  return Number(/^Rss:\s+(\d+) kB/m.exec(text)[1]) * 1024;
}

/** Anonymous resident memory of one process in bytes: what it has allocated, without the pages of a store that it has read. */
export function allocated_bytes(pid) {
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024;
}

/** Resident memory of `root` and its descendants in bytes; shared pages are counted once for each process. */
export function treeRss_bytes(root) {
  return processTree(root).reduce((sum, entry) => {
    try {
      return sum + rss_bytes(entry.pid);
    } catch {
      return sum; // ended while we looked
    }
  }, 0);
}

/** Time that all cores of the machine together have been busy since boot, in microseconds; includes time stolen by a hypervisor. */
export function machineBusy_us() {
  const [, user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'utf8').split('\n', 1)[0].split(/\s+/);
  const ticks = [user, nice, system, irq, softirq, steal].reduce((sum, field) => sum + Number(field), 0);
  return (ticks * 1e6) / TICKS_PER_SECOND;
}
