// What the kernel says about processes: /proc of Linux (proc(5)).

import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/**
 * Reads one /proc/PID/stat line. `own_us` is user and system time of the process, `cpu_us` that and the time of its children that ended and
 * were waited for. The kernel prints ticks (10 ms nearly everywhere), so a difference of two readings is exact to one tick for each process.
 */
export function parseStat(line) {
  // The command's name, in parentheses, may itself hold spaces and parentheses.
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

/** When the process started, as the kernel's own text; null when there is no such process. With the pid it names a process for good. */
export function startTime(pid) {
  return stat(pid)?.started ?? null;
}

/** The process `root` and all its descendants that are alive now. */
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

/** CPU microseconds that `root` and everything below it have used since their start. */
export function treeCpu_us(root) {
  return processTree(root).reduce((sum, entry) => sum + entry.cpu_us, 0);
}

/** CPU microseconds of one process, without its children; 0 when there is none. */
export function ownCpu_us(pid) {
  return stat(pid)?.own_us ?? 0;
}

/** CPU microseconds of this process's children that have ended, and of theirs. */
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

/** Resident bytes of one process that no file backs: what it has allocated, without the pages of a store that it has looked at. */
export function allocated_bytes(pid) {
  return Number(/^RssAnon:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024;
}

/** Resident bytes of `root` and everything below it; pages they share are counted once for each of them. */
export function treeRss_bytes(root) {
  return processTree(root).reduce((sum, entry) => {
    try {
      return sum + rss_bytes(entry.pid);
    } catch {
      return sum; // ended while we looked
    }
  }, 0);
}

/** CPU microseconds that the whole machine has been busy since it started, all cores together; time stolen by a hypervisor included. */
export function machineBusy_us() {
  const [, user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'utf8').split('\n', 1)[0].split(/\s+/);
  const ticks = [user, nice, system, irq, softirq, steal].reduce((sum, field) => sum + Number(field), 0);
  return (ticks * 1e6) / TICKS_PER_SECOND;
}
