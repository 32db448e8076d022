// The PostgreSQL server for the suites that need one: started by `make postgres`, or named by FOREBAY_PG_URL.

import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, readlinkSync } from 'node:fs';
import { SetupError } from './options.mjs';

const FILE = new URL('../target/postgres.env', import.meta.url);

/** `{url, pid}`: its address, and its main process if it runs on this machine. Throws a SetupError if there is none. */
export function findDatabase() {
  const written = existsSync(FILE) ? /^FOREBAY_PG_URL=(.*)$/m.exec(readFileSync(FILE, 'utf8'))?.[1] : undefined;
  const url = process.env.FOREBAY_PG_URL ?? written;
  if (url === undefined) throw new SetupError('no PostgreSQL: run `make postgres`, or say in FOREBAY_PG_URL where one is');
  return { url, pid: listener(Number(new URL(url).port || 5432)) };
}

/** The same database for a user without a password, for drivers that do not support SCRAM. */
export function withoutPassword({ url }) {
  const trusting = new URL(url);
  trusting.username = 'trustuser';
  trusting.password = 'none';
  return trusting.href;
}

/** The answer to a statement, as psql prints it without decoration. */
export function ask({ url }, statement) {
  return execFileSync('psql', ['-XAtq', '-v', 'ON_ERROR_STOP=1', url, '-c', statement], { encoding: 'utf8' }).trim();
}

/**
 * The process of this machine that listens on a port of 127.0.0.1, with the lowest id if several share the socket; undefined if there is
 * none.
 */
function listener(port) {
  const LISTEN = '0A';
  const address = `0100007F:${port.toString(16).toUpperCase().padStart(4, '0')}`;
  const lines = readFileSync('/proc/net/tcp', 'utf8').split('\n').map((line) => line.trim().split(/\s+/));
  const inode = lines.find(([, local, , state]) => local === address && state === LISTEN)?.[9];
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).map(Number).sort((one, other) => one - other);
  return pids.find((pid) => descriptors(pid).includes(`socket:[${inode}]`));
}

function descriptors(pid) {
  try {
    return readdirSync(`/proc/${pid}/fd`).map((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`));
  } catch {
    return []; // ended while we looked, or somebody else's
  }
}
