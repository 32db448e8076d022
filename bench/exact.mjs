// Load with a check of every response, by `forebay load`: wrk counts responses but does not look at their content.

import { availableParallelism } from 'node:os';
import { machineBusy_us, ownCpu_us, processTree, rss_bytes, treeCpu_us } from './proc.mjs';
import { runToEnd } from './processes.mjs';

/**
 * Runs `forebay load` on one URL; with `post`, it POSTs this text with its placeholders filled in. Resolves to its JSON output, whether or
 * not all responses were right.
 */
export async function load(binary, url, { connections, seconds, body, keepAlive, post }) {
  const args = ['load', url, '-c', connections, '-t', 1, '-d', `${seconds}s`, '--warmup', 0, '--expect-status', 200, '--expect-body', body, '--json', '--quiet'];
  if (!keepAlive) args.push('--no-keepalive');
  if (post) args.push('-b', post, '-H', 'content-type: text/plain', '--template');
  return JSON.parse(await runToEnd('forebay load', binary, args.map(String)));
}

/**
 * Loads `server` at `path` over `connections` connections, which stay open or are closed by the server after each response, after a warm-up
 * that is not timed. Every response must have status 200 and exactly `body`, or match it as for `forebay load --expect-body`. CPU time is
 * reported for the server's own process and for its whole process tree; `sent`, `right` and the flag about wrong responses include the
 * warm-up.
 */
export async function exactRun(binary, server, { path, body, connections, keepAlive, post, warmup_s, seconds }) {
  const url = server.url + path;
  const pid = server.process.pid;
  const warmUp = await load(binary, url, { connections, seconds: warmup_s, body, keepAlive, post });
  const look = () => ({ own_us: ownCpu_us(pid), tree_us: treeCpu_us(pid), bench_us: treeCpu_us(process.pid), busy_us: machineBusy_us() });

  const members = memberIds(pid);
  const [before, began] = [look(), performance.now()];
  const timed = await load(binary, url, { connections, seconds, body, keepAlive, post });
  const [after, wall_us] = [look(), (performance.now() - began) * 1e3];
  const used = Object.fromEntries(Object.keys(before).map((name) => [name, after[name] - before[name]]));

  const requests = timed.requests.total;
  const sent = warmUp.requests.sent + timed.requests.sent;
  const right = rightOf(warmUp) + rightOf(timed);
  const flags = [];
  if (requests === 0) flags.push('no requests');
  if (right !== sent) flags.push(`${sent - right} of ${sent} requests without the right answer: ${JSON.stringify({ ...warmUp.errors, ...timed.errors })}`);
  if (members !== memberIds(pid)) flags.push('processes came or went');
  return {
    requests_per_s: timed.requests.per_second,
    p50_us: timed.latency_ms.p50 * 1e3,
    p99_us: timed.latency_ms.p99 * 1e3,
    cpu_us_per_request: used.tree_us / requests,
    server_us_per_request: used.own_us / requests,
    children_us_per_request: (used.tree_us - used.own_us) / requests,
    rss_bytes: rss_bytes(pid),
    requests,
    sent,
    right,
    client_cores: (used.bench_us - used.tree_us) / wall_us,
    elsewhere_share: Math.max(0, used.busy_us - used.bench_us) / (wall_us * availableParallelism()),
    flags,
  };
}

const rightOf = ({ requests }) => requests.total - requests.failed;

const memberIds = (pid) => processTree(pid).map((entry) => entry.pid).sort().join(' ');
