// One timed run: load on one server, and its cost.

import { availableParallelism } from 'node:os';
import { get, send } from './http.mjs';
import { machineBusy_us, processTree, treeCpu_us, treeRss_bytes } from './proc.mjs';
import { runWrk } from './wrk.mjs';

/** Starts to observe the machine; the returned function tells which share of it others have used since. */
export function watchOthers() {
  const [busyBefore_us, ownBefore_us, began] = [machineBusy_us(), treeCpu_us(process.pid), performance.now()];
  return () => {
    const wall_us = (performance.now() - began) * 1e3;
    const others_us = machineBusy_us() - busyBefore_us - (treeCpu_us(process.pid) - ownBefore_us);
    return Math.max(0, others_us) / (wall_us * availableParallelism());
  };
}

/**
 * Fails unless `server` answers `path` with status 200 and exactly `body`. Both sides of a comparison are checked with the
 * same text before they are timed.
 */
export async function checkAnswer(server, path, body) {
  const answer = await get(server.url + path);
  if (answer.status !== 200 || answer.body !== body) {
    throw server.process.failure(`answered ${path} with ${answer.status} ${answer.body}, not with 200 ${body}`);
  }
}

/** Fails unless `server` answers a POST of JSON with the status and with a body that matches the pattern. */
export async function checkPost(server, path, json, { status, pattern }) {
  const answer = await send('POST', server.url + path, json);
  if (answer.status !== status || !pattern.test(answer.body)) {
    throw server.process.failure(`answered POST ${path} with ${answer.status} ${answer.body}, not with ${status} ${pattern}`);
  }
}

/** The process ids of a server. A change during a run flags the run, unless the server has a process for each connection. */
function processIds(server) {
  if (server.processPerConnection) return '';
  return processTree(server.process.pid).map(({ pid }) => pid).sort().join(' ');
}

function flagsOf({ requests, errors }, membersBefore, membersAfter) {
  const flags = Object.entries(errors)
    .filter(([, count]) => count > 0)
    .map(([cause, count]) => `${count} ${cause} errors`);
  if (requests === 0) flags.push('no requests');
  if (membersBefore !== membersAfter) flags.push('processes came or went');
  return flags;
}

/** wrk on one path; with `post`, POST of this JSON instead of GET. */
const wrkOn = (path, post) => (server, amounts) => runWrk(server.url + path, { ...amounts, post });

const databaseCpu_us = ({ database }) => (database === undefined ? 0 : treeCpu_us(database));

/**
 * Loads `server` at `path` for `seconds` after a warm-up that is not counted: with wrk, or for servers that wrk cannot talk to by
 * `drive(server, {connections, seconds})`, which resolves as `runWrk` does. CPU time is that of the server's whole process tree,
 * divided by the number of responses that the generator saw. `client_cores` is the CPU use of generator and benchmark: near 1, wrk's single
 * thread was the limit. If the server has a `database`, a process of this machine, its CPU time is reported separately. `elsewhere_share`
 * is the share of the machine that others used. `flags` lists all reasons not to use the run; it is empty for a clean one.
 */
export async function timedRun(server, { path, post, connections, warmup_s, seconds, drive = wrkOn(path, post) }) {
  await drive(server, { connections, seconds: warmup_s });

  const members = processIds(server);
  const cpuBefore_us = treeCpu_us(server.process.pid);
  const databaseBefore_us = databaseCpu_us(server);
  const ownBefore_us = treeCpu_us(process.pid);
  const busyBefore_us = machineBusy_us();
  const began = performance.now();
  const load = await drive(server, { connections, seconds });
  const wall_us = (performance.now() - began) * 1e3;
  const busy_us = machineBusy_us() - busyBefore_us;
  const own_us = treeCpu_us(process.pid) - ownBefore_us; // server, generator, and this program
  const cpu_us = treeCpu_us(server.process.pid) - cpuBefore_us;
  const database_us = databaseCpu_us(server) - databaseBefore_us;

  return {
    requests_per_s: load.requests_per_s,
    p50_us: load.p50_us,
    p99_us: load.p99_us,
    cpu_us_per_request: cpu_us / load.requests,
    ...(server.database && { database_us_per_request: database_us / load.requests }),
    rss_bytes: treeRss_bytes(server.process.pid),
    requests: load.requests,
    seconds: load.seconds,
    client_cores: (own_us - cpu_us) / wall_us,
    elsewhere_share: Math.max(0, busy_us - own_us - database_us) / (wall_us * availableParallelism()),
    errors: load.errors,
    flags: flagsOf(load, members, processIds(server)),
  };
}
