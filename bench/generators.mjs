// Load generators as subjects of a comparison: how each is run, and how its output is read.

import { existsSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { fileURLToPath } from 'node:url';
import { searchPath } from './peers/installed.mjs';
import { endedChildrenCpu_us, machineBusy_us, treeCpu_us } from './proc.mjs';
import { runToEnd } from './processes.mjs';
import { parseWrk } from './wrk.mjs';

const autocannonProgram = fileURLToPath(new URL('peers/node_modules/autocannon/autocannon.js', import.meta.url));

const find = (pattern, text) => {
  const match = pattern.exec(text);
  if (!match) throw new Error(`no ${pattern} in what was printed:\n${text}`);
  return Number(match[1]);
};

/** Forebay's own generator, without its warm-up, because the CPU time of every generator is counted from its start. */
export function forebayLoad(binary, engine = 'auto') {
  return {
    name: engine === 'auto' ? 'forebay load' : `forebay load with ${engine}`,
    isThere: () => existsSync(binary),
    command: (url, { connections, seconds, keepAlive }) => [
      binary,
      ['load', url, '-c', connections, '-t', 1, '-d', `${seconds}s`, '--warmup', '0', '--engine', engine, '--json', '--quiet', ...(keepAlive ? [] : ['--no-keepalive'])],
    ],
    read(text) {
      const { requests, latency_ms, errors } = JSON.parse(text);
      const failed = Object.values(errors).reduce((sum, count) => sum + count, 0);
      return { requests: requests.total, p50_us: latency_ms.p50 * 1e3, p99_us: latency_ms.p99 * 1e3, failed };
    },
  };
}

/** Whether a command is installed, as a function. */
export const onPath = (name) => () => searchPath.split(':').some((folder) => existsSync(`${folder}/${name}`));

/** The peers. `read` returns the number of responses, latencies in microseconds if the tool is precise enough, and failures. */
export const generators = {
  wrk: {
    name: 'wrk',
    isThere: onPath('wrk'),
    command: (url, { connections, seconds }) => ['wrk', ['--latency', '-t', 1, '-c', connections, '-d', `${seconds}s`, url]],
    read(text) {
      const { requests, p50_us, p99_us, errors } = parseWrk(text);
      return { requests, p50_us, p99_us, failed: Object.values(errors).reduce((sum, count) => sum + count, 0) };
    },
  },
  ab: {
    name: 'ab',
    isThere: onPath('ab'),
    command: (url, { connections, seconds, keepAlive }) => [
      'ab',
      ['-q', ...(keepAlive ? ['-k'] : []), '-c', connections, '-t', seconds, '-n', 100_000_000, url],
    ],
    read: (text) => ({
      requests: find(/^Complete requests:\s+(\d+)/m, text),
      p50_us: find(/^\s+50%\s+(\d+)/m, text) * 1e3,
      p99_us: find(/^\s+99%\s+(\d+)/m, text) * 1e3,
      failed: find(/^Failed requests:\s+(\d+)/m, text),
    }),
  },
  autocannon: {
    name: 'autocannon',
    isThere: () => existsSync(autocannonProgram),
    command: (url, { connections, seconds }) => [process.execPath, [autocannonProgram, '-c', connections, '-d', seconds, '-j', url]],
    read(text) {
      const { requests, latency, errors, non2xx } = JSON.parse(text);
      return { requests: requests.total, p50_us: latency.p50 * 1e3, p99_us: latency.p99 * 1e3, failed: errors + non2xx };
    },
  },
  oha: {
    name: 'oha',
    isThere: onPath('oha'),
    command: (url, { connections, seconds }) => ['oha', ['-c', connections, '-z', `${seconds}s`, '--no-tui', '--output-format', 'json', url]],
    read(text) {
      const { statusCodeDistribution, latencyPercentiles } = JSON.parse(text);
      const requests = Object.values(statusCodeDistribution).reduce((sum, count) => sum + count, 0);
      return { requests, p50_us: latencyPercentiles.p50 * 1e6, p99_us: latencyPercentiles.p99 * 1e6, failed: 0 };
    },
  },
  bombardier: {
    name: 'bombardier',
    isThere: onPath('bombardier'),
    command: (url, { connections, seconds }) => ['bombardier', ['-c', connections, '-d', `${seconds}s`, '-l', '-p', 'r', '-o', 'json', url]],
    read(text) {
      const { result } = JSON.parse(text);
      const { 50: p50_us, 99: p99_us } = result.latency.percentiles;
      return { requests: result.req2xx, p50_us, p99_us, failed: result.req4xx + result.req5xx + result.others };
    },
  },
};

/**
 * Loads `server` at `path` with one generator. The figures have the names of `timedRun` in measure.mjs, but CPU time is that of the
 * generator, from its start to its end.
 */
export async function generate(generator, server, { path, connections, seconds, keepAlive = true }) {
  const [command, args] = generator.command(server.url + path, { connections, seconds, keepAlive });
  const cpuBefore_us = endedChildrenCpu_us();
  const serverBefore_us = treeCpu_us(server.process.pid);
  const busyBefore_us = machineBusy_us();
  const began = performance.now();
  const text = await runToEnd(generator.name, command, args.map(String), { env: { PATH: searchPath } });
  const wall_us = (performance.now() - began) * 1e3;
  const busy_us = machineBusy_us() - busyBefore_us;
  const cpu_us = endedChildrenCpu_us() - cpuBefore_us;
  const server_us = treeCpu_us(server.process.pid) - serverBefore_us;
  const { requests, p50_us, p99_us, failed } = generator.read(text);
  const flags = [];
  if (failed > 0) flags.push(`${failed} failed requests`);
  if (requests === 0) flags.push('no requests');
  return {
    requests_per_s: (requests / wall_us) * 1e6,
    p50_us,
    p99_us,
    cpu_us_per_request: cpu_us / requests,
    rss_bytes: 0,
    requests,
    seconds: wall_us / 1e6,
    client_cores: cpu_us / wall_us,
    elsewhere_share: Math.max(0, busy_us - cpu_us - server_us) / (wall_us * availableParallelism()),
    flags,
  };
}
