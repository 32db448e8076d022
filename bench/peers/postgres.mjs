// PostgreSQL with pgbench (Debian package `postgresql`), over TCP on the loopback.

import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { freePort } from '../http.mjs';
import { launch, runToEnd, stop } from '../processes.mjs';
import { percentile } from '../stats.mjs';
import { printedVersion } from './installed.mjs';

const START_TIMEOUT_MS = 15_000;
const THREADS = 2; // of pgbench
const SAMPLED_SHARE = 0.1; // of the transactions, whose latencies pgbench logs

/** Folder with the programs of the newest installed version; null if there is none. */
function installation() {
  const versions = existsSync('/usr/lib/postgresql') ? readdirSync('/usr/lib/postgresql') : [];
  const folders = versions.sort((a, b) => Number(a) - Number(b)).map((version) => `/usr/lib/postgresql/${version}/bin`);
  return folders.filter((folder) => ['initdb', 'postgres', 'psql', 'pgbench'].every((name) => existsSync(join(folder, name)))).at(-1) ?? null;
}

/** Its version; null if it is not installed. */
export function postgresVersion() {
  const programs = installation();
  return programs && printedVersion(join(programs, 'postgres'), '--version').replace('postgres (PostgreSQL) ', '');
}

/** PostgreSQL refuses to run as root, so for root it runs as the user `postgres`, which its package creates. */
function user() {
  if (process.getuid() !== 0) return {};
  const id = (option) => Number(execFileSync('id', [option, 'postgres'], { encoding: 'utf8' }));
  return { uid: id('-u'), gid: id('-g') };
}

/** Parses the output of pgbench: transactions and their rate, and the number of failures. Throws if a figure is missing. */
export function parsePgbench(output) {
  const find = (what, pattern) => {
    const match = pattern.exec(output);
    if (!match) throw new Error(`pgbench printed no ${what}:\n${output}`);
    return Number(match[1]);
  };
  return {
    requests: find('number of transactions', /^number of transactions actually processed: (\d+)/m),
    requests_per_s: find('rate', /^tps = ([\d.]+) \(without initial connection time\)/m),
    failed: find('number of failed transactions', /^number of failed transactions: (\d+)/m),
  };
}

/** Latencies in microseconds from a log of pgbench (`--log`), the third figure of each line. */
export function parsePgbenchLog(text) {
  return text.split('\n').filter(Boolean).map((line) => {
    const latency_us = Number(line.split(' ')[2]);
    if (!Number.isFinite(latency_us)) throw new Error(`not a line of pgbench's log: "${line}"`);
    return latency_us;
  });
}

/**
 * One side of a comparison: a new cluster with default settings (so `fsync` and `synchronous_commit` are on; only autovacuum, which would
 * not start in so short a run, is off), one table with an identity and a `jsonb` column, and pgbench with one prepared INSERT of `json`.
 */
export function postgresInsert(json) {
  return {
    name: 'PostgreSQL INSERT, prepared',
    lacking: () => (installation() ? null : 'apt-get install postgresql'),
    start: startPostgres,
    load: {
      path: 'jsonb',
      connections: 64,
      check: async (server) => insertOnce(server, json),
      drive: (server, amounts) => drive(server, json, amounts),
    },
  };
}

async function startPostgres(folder) {
  const programs = installation();
  const account = user();
  chmodSync(folder, 0o711); // the other user can pass through the folder, but not list it
  const own = mkdtempSync(join(folder, 'postgres-'));
  if (account.uid !== undefined) chownSync(own, account.uid, account.gid);
  const data = join(own, 'data');
  const env = { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' };
  await runToEnd('initdb', join(programs, 'initdb'), ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8'], { env, cwd: own, ...account });
  const port = await freePort();
  const settings = ['listen_addresses=127.0.0.1', `port=${port}`, `unix_socket_directories=${own}`, 'autovacuum=off'];
  const args = ['-D', data, ...settings.flatMap((setting) => ['-c', setting])];
  const process_ = launch('postgres', join(programs, 'postgres'), args, { env, cwd: own, ...account });
  const access = { PGHOST: '127.0.0.1', PGPORT: String(port), PGUSER: 'postgres', PGDATABASE: 'postgres' };
  const server = { process: process_, processPerConnection: true, programs, folder: own, env: { ...env, ...access } };
  try {
    await process_.waitForOutput(/database system is ready to accept connections/, START_TIMEOUT_MS);
    await ask(server, 'create table person (id bigint generated always as identity primary key, document jsonb not null)');
    return server;
  } catch (error) {
    await stop(process_);
    throw error;
  }
}

/** The answer to a statement, as psql prints it without decoration. */
async function ask({ programs, env }, statement) {
  return (await runToEnd('psql', join(programs, 'psql'), ['-XAtq', '-v', 'ON_ERROR_STOP=1', '-c', statement], { env })).trim();
}

/** Fails unless an INSERT returns the next identity, and commits wait for the disk. */
async function insertOnce(server, json) {
  const id = await ask(server, `insert into person (document) values ('${json}') returning id`);
  const settings = await ask(server, "select current_setting('synchronous_commit'), current_setting('fsync')");
  if (id !== '1' || settings !== 'on|on') throw server.process.failure(`answered an INSERT with "${id}", its settings are ${settings}`);
}

async function drive(server, json, { connections, seconds }) {
  const script = join(server.folder, 'insert.sql');
  writeFileSync(script, 'insert into person (document) values (:document) returning id;\n');
  const log = ['--log', `--log-prefix=${join(server.folder, 'latency')}`, `--sampling-rate=${SAMPLED_SHARE}`];
  const args = ['-n', '-M', 'prepared', '-c', connections, '-j', THREADS, '-T', seconds, '-f', script, '-D', `document=${json}`, ...log];
  const { failed, ...measured } = parsePgbench(await runToEnd('pgbench', join(server.programs, 'pgbench'), args.map(String), { env: server.env }));
  const latencies = takeLatencies(server.folder);
  return {
    ...measured,
    seconds: measured.requests / measured.requests_per_s,
    p50_us: percentile(latencies, 0.5),
    p99_us: percentile(latencies, 0.99),
    errors: { failed },
  };
}

/** Reads and removes the logs of a run; there is one per thread. */
function takeLatencies(folder) {
  const files = readdirSync(folder).filter((name) => name.startsWith('latency.')).map((name) => join(folder, name));
  const latencies = files.flatMap((file) => parsePgbenchLog(readFileSync(file, 'utf8')));
  for (const file of files) rmSync(file);
  return latencies;
}
