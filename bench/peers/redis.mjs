// Redis (Debian package `redis-server`), over TCP on the loopback: with its own load generator, and with a client in Node.

import { existsSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../http.mjs';
import { lapProgram } from '../laps.mjs';
import { launch, runToEnd, stop } from '../processes.mjs';
import { printedVersion, searchPath } from './installed.mjs';

const START_TIMEOUT_MS = 15_000;
const KEYS = 1_000_000; // from which SET picks one at random
const FIRST_RATE = 20_000; // of the warm-up: redis-benchmark takes a number of requests, not a duration

function lacking() {
  const there = ['redis-server', 'redis-benchmark'].every((name) => searchPath.split(':').some((folder) => existsSync(`${folder}/${name}`)));
  return there ? null : 'apt-get install redis-server';
}

/** Its version; null if it is not installed. */
export const redisVersion = () => (lacking() === null ? (/v=(\S+)/.exec(printedVersion('redis-server', '--version'))?.[1] ?? null) : null);

/** Starts a server with its files in a new folder below `folder`; `options` are command-line options. */
async function start(folder, options) {
  const own = mkdtempSync(join(folder, 'redis-'));
  const port = await freePort();
  const args = ['--bind', '127.0.0.1', '--port', port, '--dir', own, '--save', '', ...options];
  const process_ = launch('redis-server', 'redis-server', args.map(String), { env: { PATH: searchPath } });
  await process_.waitForOutput(/Ready to accept connections/, START_TIMEOUT_MS);
  return { process: process_, port };
}

/** Parses the last line of `redis-benchmark --csv`. Throws if it is not a result: a partly read run must not become one. */
export function parseRedisBenchmark(output) {
  const lines = output.trim().split('\n');
  const cells = (line) => [...line.matchAll(/"([^"]*)"/g)].map(([, cell]) => cell);
  const header = cells(lines[0]);
  const result = cells(lines.at(-1));
  const figure = (name) => {
    const value = Number(result[header.indexOf(name)]);
    if (lines.length < 2 || !Number.isFinite(value)) throw new Error(`redis-benchmark printed no ${name}:\n${output}`);
    return value;
  };
  return { requests_per_s: figure('rps'), p50_us: figure('p50_latency_ms') * 1e3, p99_us: figure('p99_latency_ms') * 1e3 };
}

async function benchmark(port, requests, args) {
  const all = ['-h', '127.0.0.1', '-p', port, '-n', requests, '--csv', ...args];
  return parseRedisBenchmark(await runToEnd('redis-benchmark', 'redis-benchmark', all.map(String), { env: { PATH: searchPath } }));
}

/**
 * One side of a comparison: Redis with an append-only file that is flushed according to `appendfsync` (`always`: before each reply), and
 * redis-benchmark that sets values of `bytes` bytes under random keys.
 */
export function redisSet(appendfsync, bytes) {
  const options = ['--appendonly', 'yes', '--appendfsync', appendfsync, '--auto-aof-rewrite-percentage', 0];
  return {
    name: `Redis SET, appendfsync ${appendfsync}`,
    lacking,
    start: (folder) => start(folder, options),
    load: {
      path: `${bytes} bytes`,
      connections: 64,
      check: () => {},
      async drive(server, { connections, seconds }) {
        const requests = Math.round((server.rate ?? FIRST_RATE) * seconds);
        const measured = await benchmark(server.port, requests, ['-t', 'set', '-c', connections, '-d', bytes, '-r', KEYS]);
        server.rate = measured.requests_per_s;
        return { ...measured, requests, seconds: requests / measured.requests_per_s, errors: {} };
      },
    },
  };
}

const inLap = lapProgram('Redis, one connection', process.execPath, new URL('laps/redis.mjs', import.meta.url), lacking);

/** Redis without any file as a contender of a lap. */
export const redisInLap = {
  ...inLap,
  async lap(plan) {
    const { process: process_, port } = await start(plan.folder, ['--appendonly', 'no']);
    try {
      return await inLap.lap({ ...plan, server: { port, pid: process_.pid } });
    } finally {
      await stop(process_);
    }
  },
};
