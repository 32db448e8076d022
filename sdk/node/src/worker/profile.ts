/**
 * Profiles this process with V8's own profiler, at the request of the server. It measures wall-clock time: a function that blocks the
 * thread, for a file or a child process, is charged for that too. Only time in which the event loop is idle is reported separately.
 */
import { Session, type Profiler } from 'node:inspector';
import { relative } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

/** Sampling interval, in microseconds. */
const INTERVAL_US = 1000;
/** Longest text that is sent, in Latin-1 characters: a frame cannot hold more. */
const LENGTH_MAX = 1_000_000;
/** The folder of this package, whose files are named as programs import them. */
const PACKAGE = fileURLToPath(new URL('../', import.meta.url));
/** V8's name for idle time of the event loop. */
const IDLE = '(idle)';
const ROOT = '(root)';

/** Aborting it ends the current profile. */
let over = new AbortController();

/** Ends the current profile, if any. */
export function endProfile(): void {
  over.abort();
}

/** Profiles for `ms` milliseconds; returns the payload of PROFILED. If another profiler is attached, the payload says so. */
export async function profile(ms: number): Promise<string> {
  over = new AbortController();
  const { signal } = over;
  const session = new Session();
  try {
    session.connect();
    await post(session, 'Profiler.enable');
    await post(session, 'Profiler.setSamplingInterval', { interval: INTERVAL_US });
    await post(session, 'Profiler.start');
    // Rejects only if aborted.
    await setTimeout(ms, undefined, { signal }).catch(() => {});
    const { profile } = (await post(session, 'Profiler.stop')) as Profiler.StopReturnType;
    return payloadOf(profile);
  } catch (error) {
    return JSON.stringify({ error: error instanceof Error ? error.message : String(error) });
  } finally {
    session.disconnect();
  }
}

function post(session: Session, method: string, parameters?: object): Promise<unknown> {
  return new Promise((resolve, reject) => {
    session.post(method, parameters, (error, result) => (error === null ? resolve(result) : reject(error)));
  });
}

/** Stacks from the outermost to the running function, with their wall-clock time in microseconds, longest first. */
function payloadOf({ nodes, samples = [], timeDeltas = [] }: Profiler.Profile): string {
  const byId = new Map(nodes.map((node) => [node.id, node]));
  const parents = new Map<number, number>();
  for (const node of nodes) for (const child of node.children ?? []) parents.set(child, node.id);
  const spent = new Map<number, number>();
  samples.forEach((id, at) => spent.set(id, (spent.get(id) ?? 0) + Math.max(0, timeDeltas[at + 1] ?? INTERVAL_US)));
  const stacks: { frames: string[]; us: number }[] = [];
  let idle_us = 0;
  for (const [id, us] of spent) {
    if (byId.get(id)?.callFrame.functionName === IDLE) idle_us += us;
    else stacks.push({ frames: framesOf(id), us });
  }
  stacks.sort((a, b) => b.us - a.us);
  let left_out_us = 0;
  let length = 0;
  const sent = stacks.filter(({ frames, us }) => {
    length += Buffer.byteLength(JSON.stringify({ frames, us })) + 1;
    if (length > LENGTH_MAX) left_out_us += us;
    return length <= LENGTH_MAX;
  });
  return JSON.stringify({ stacks: sent, idle_us, left_out_us });

  function framesOf(id: number): string[] {
    const frames: string[] = [];
    for (let at: number | undefined = id; at !== undefined; at = parents.get(at)) {
      const node = byId.get(at);
      if (node !== undefined && node.callFrame.functionName !== ROOT) frames.push(nameOf(node.callFrame));
    }
    return frames.reverse();
  }
}

/** A function with its file, relative to the working directory if it is below that, and its line. */
function nameOf({ functionName, url, lineNumber }: Profiler.ProfileNode['callFrame']): string {
  const name = functionName === '' ? '(anonymous)' : functionName;
  if (url === '') return name;
  const file = url.startsWith('file:') ? fileURLToPath(url) : url;
  if (file.startsWith(PACKAGE)) return `${name} forebay/${file.slice(PACKAGE.length)}:${lineNumber + 1}`;
  const seen = file.startsWith('/') ? relative(process.cwd(), file) : file;
  return `${name} ${seen.startsWith('..') ? file : seen}:${lineNumber + 1}`;
}
