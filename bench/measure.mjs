// One timed run: load on one server, and what it cost.

import { availableParallelism } from 'node:os';
import { get } from './http.mjs';
import { machineBusy_us, processTree, treeCpu_us, treeRss_bytes } from './proc.mjs';
import { runWrk } from './wrk.mjs';

/**
 * Fails unless `server` answers `path` with status 200 and exactly `body`. Both sides of a comparison pass through here with the
 * same text before they are timed.
 */
export async function checkAnswer(server, path, body) {
  const answer = await get(server.url + path);
  if (answer.status !== 200 || answer.body !== body) {
    throw server.process.failure(`answered ${path} with ${answer.status} ${answer.body}, not with 200 ${body}`);
  }
}

function processIds(server) {
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

/**
 * Loads `server` at `path` for `seconds` after a warm-up that is not counted. CPU is that of the server's whole process tree,
 * divided by the requests that wrk saw answered. `client_cores` is what wrk and this program used: near 1, wrk's one thread was
 * the limit. `elsewhere_share` is the share of the machine that others used. `flags` names every reason not to use the run; it is
 * empty for a clean one.
 */
export async function timedRun(server, { path, connections, warmup_s, seconds }) {
  const url = server.url + path;
  await runWrk(url, { connections, seconds: warmup_s });

  const members = processIds(server);
  const cpuBefore_us = treeCpu_us(server.process.pid);
  const ownBefore_us = treeCpu_us(process.pid);
  const busyBefore_us = machineBusy_us();
  const began = performance.now();
  const load = await runWrk(url, { connections, seconds });
  const wall_us = (performance.now() - began) * 1e3;
  const busy_us = machineBusy_us() - busyBefore_us;
  const own_us = treeCpu_us(process.pid) - ownBefore_us; // server, wrk, and this program
  const cpu_us = treeCpu_us(server.process.pid) - cpuBefore_us;

  return {
    requests_per_s: load.requests_per_s,
    p50_us: load.p50_us,
    p99_us: load.p99_us,
    cpu_us_per_request: cpu_us / load.requests,
    rss_bytes: treeRss_bytes(server.process.pid),
    requests: load.requests,
    seconds: load.seconds,
    client_cores: (own_us - cpu_us) / wall_us,
    elsewhere_share: Math.max(0, busy_us - own_us) / (wall_us * availableParallelism()),
    errors: load.errors,
    flags: flagsOf(load, members, processIds(server)),
  };
}
