/** CPU time as counted by Linux (proc(5)): of the JavaScript thread, and of the process with all its descendants. */
import { execFileSync } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';

let ticksPerSecond = 0;

/** Microseconds per tick, the unit of /proc/PID/stat. */
function tick_us(): number {
  if (ticksPerSecond === 0) ticksPerSecond = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));
  return 1e6 / ticksPerSecond;
}

/**
 * CPU time of this process's main thread in microseconds; `process.cpuUsage()` would include worker threads. Uses the scheduler's count,
 * exact to its last tick (1 to 10 ms), or the count in ticks on kernels without it. Null without /proc.
 */
export function mainThread_us(): number | null {
  const folder = `/proc/self/task/${process.pid}`;
  try {
    const running_ns = Number(readFileSync(`${folder}/schedstat`, 'utf8').split(' ', 1)[0]);
    if (running_ns > 0) return running_ns / 1000;
  } catch {
    // Not every kernel has this file.
  }
  try {
    return readStat(`${folder}/stat`).own_us;
  } catch {
    return null;
  }
}

/** CPU time of this process, all its threads and all its descendants, in microseconds. Null without /proc. */
export function everything_us(): number | null {
  try {
    return family().reduce((sum, each) => sum + each.all_us, 0);
  } catch {
    return null;
  }
}

/** Time that all cores of the machine together have been busy since boot, in microseconds. Null without /proc. */
export function machineBusy_us(): number | null {
  try {
    // user nice system idle iowait irq softirq steal (proc(5)); time of guests is part of `user`.
    const [, user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'utf8').split('\n', 1)[0]!.split(/\s+/).map(Number);
    return (user! + nice! + system! + irq! + softirq! + steal!) * tick_us();
  } catch {
    return null;
  }
}

/** Process ids of all living descendants of this process. */
export function descendants(): number[] {
  try {
    return family()
      .map((each) => each.pid)
      .filter((pid) => pid !== process.pid);
  } catch {
    return [];
  }
}

interface Stat {
  readonly pid: number;
  readonly parent: number;
  readonly own_us: number;
  /** Includes children that have ended and were waited for. */
  readonly all_us: number;
}

function readStat(path: string): Stat {
  const text = readFileSync(path, 'utf8');
  // The command's name, in parentheses, may itself contain spaces and parentheses.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ').map(Number);
  const own = fields[11]! + fields[12]!;
  return {
    pid: Number.parseInt(text, 10),
    parent: fields[1]!,
    own_us: own * tick_us(),
    all_us: (own + fields[13]! + fields[14]!) * tick_us(),
  };
}

/** This process and its descendants. */
function family(): Stat[] {
  const all: Stat[] = [];
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      all.push(readStat(`/proc/${name}/stat`));
    } catch {
      // The process ended meanwhile.
    }
  }
  const found = all.filter((each) => each.pid === process.pid);
  for (let index = 0; index < found.length; index += 1) {
    found.push(...all.filter((each) => each.parent === found[index]!.pid));
  }
  return found;
}
