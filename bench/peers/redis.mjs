// Redis (Debian package `redis-server`), over TCP on the loopback, with a client in Node.

import { existsSync, mkdtempSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../http.mjs';
import { lapProgram } from '../laps.mjs';
import { launch, stop } from '../processes.mjs';
import { printedVersion, searchPath } from './installed.mjs';

const START_TIMEOUT_MS = 15_000;

function lacking() {
  const there = searchPath.split(':').some((folder) => existsSync(`${folder}/redis-server`));
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
