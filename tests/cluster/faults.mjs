#!/usr/bin/env node
// A test cluster of three machines, each a network namespace of its own, on one bridge: three NATS servers, two front ends, three worker hosts, and
// PostgreSQL with a synchronous standby. Durable jobs are in JetStream, in three copies. Requests come from outside while one fault follows another;
// then the histories are checked:
//
// - whatever was acknowledged is there afterwards: what a front end (/write) or a handler (/job) has written to the store, which is in the database,
//   and the runs of durable jobs;
// - no job of a route that is not idempotent has begun twice: each run leaves a line;
// - each request that could reach its front end is answered within its deadline and SLACK_MS;
// - within RECOVERY_MS after a fault has been healed, all kinds of requests succeed again, and none fails while nothing is wrong.
//
//   node tests/cluster/faults.mjs                       every kind of fault once, in random order; the seed is printed
//   node tests/cluster/faults.mjs --seed 7 --faults 30  thirty random faults
//   node tests/cluster/faults.mjs --only kill,cut       these, once each; --short: half a second each
//
// It needs what machines.mjs needs, `tc` (iproute2), NATS and PostgreSQL.

import { execFile, spawnSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request as httpRequest } from 'node:http';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs, promisify } from 'node:util';
import { BINARY, FAKETIME, Machine, NATS, fail, ip, run, until } from './machines.mjs';

/** Of every request. */
const DEADLINE_MS = 5_000;
/** How much later than the deadline an answer may come: this machine runs all processes of three on few cores. */
const SLACK_MS = 1_500;
/** Longest time from the end of a fault until everything works again. */
const RECOVERY_MS = 20_000;
/** How long a fault lasts: some are over before anything gives up, others take longer than every limit. */
const FAULT_MS = [500, 8_000];
/** Durable jobs that make no progress for so long are lost. */
const JOBS_MS = 40_000;
/** How long everything has to work before the next fault. */
const STEADY_MS = 1_000;
/** Clients of each front end and kind of request, each with one request at a time, and their pause between two. */
const CLIENTS = 2;
const PAUSE_MS = 20;
/** Violations that are printed. */
const SHOWN_MAX = 20;
/** PostgreSQL does not run as root; this is `nobody`. */
const DATABASE_UID = 65_534;

const { values: options } = parseArgs({
  options: { seed: { type: 'string' }, faults: { type: 'string' }, only: { type: 'string' }, short: { type: 'boolean' }, keep: { type: 'boolean' } },
});

// ---- Random numbers from a seed (mulberry32).

const seed = Number(options.seed ?? Math.floor(Math.random() * 1e9));
let state = seed >>> 0;
const random = () => {
  state = (state + 0x6d2b79f5) >>> 0;
  let mixed = Math.imul(state ^ (state >>> 15), state | 1);
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
};
const pick = (list) => list[Math.floor(random() * list.length)];

const machines = [1, 2, 3].map((number) => new Machine(number));
const fronts = machines.slice(0, 2);
let primary = machines[2];
let standby = machines[1];

/** Two machines no longer reach each other: each sends to an Ethernet address that nobody has. */
function separate(one, other, isApart) {
  for (const [from, to] of [[one, other], [other, one]]) {
    if (isApart) from.inside('neigh', 'replace', to.ip, 'lladdr', '02:00:00:00:00:ff', 'nud', 'permanent', 'dev', 'eth0');
    else from.inside('neigh', 'del', to.ip, 'dev', 'eth0');
  }
}

// ---- What runs there.

const programs = () => {
  const installed = existsSync('/usr/lib/postgresql') ? readdirSync('/usr/lib/postgresql') : [];
  const newest = installed.sort((a, b) => b - a)[0];
  return process.env.FOREBAY_POSTGRES ?? (newest ? `/usr/lib/postgresql/${newest}/bin` : dirname(run('sh', ['-c', 'command -v initdb'])));
};
const POSTGRES = programs();

/** Runs a program of PostgreSQL on a machine as its user; the clients go on meanwhile. */
const database = async (machine, program, ...args) => {
  const user = ['setpriv', `--reuid=${DATABASE_UID}`, `--regid=${DATABASE_UID}`, '--clear-groups'];
  const { stdout } = await promisify(execFile)('nsenter', [`--net=/run/netns/${machine.name}`, ...user, join(POSTGRES, program), ...args], { cwd: '/' });
  return stdout;
};
const sql = (machine, text) => database(machine, 'psql', '-h', machine.ip, '-U', 'postgres', '-qAt', '-v', 'ON_ERROR_STOP=1', '-c', text);
const data = (machine) => join(machine.folder, 'postgres', 'data');

function startDatabase(machine) {
  machine.start('postgres', [join(POSTGRES, 'postgres'), '-D', data(machine), '-k', join(machine.folder, 'postgres')], { uid: DATABASE_UID });
}

function prepareFolder(machine) {
  const folder = join(machine.folder, 'postgres');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { mode: 0o700 });
  chownSync(folder, DATABASE_UID, DATABASE_UID);
}

/** Makes a machine's database the standby of another's. */
async function follow(machine, leader) {
  prepareFolder(machine);
  await until('the primary database accepts connections', () => sql(leader, 'select 1'));
  await database(machine, 'pg_basebackup', '-h', leader.ip, '-U', 'postgres', '-D', data(machine), '-R', '-X', 'stream', '-c', 'fast');
  startDatabase(machine);
  await until('the standby is in step', async () => (await sql(leader, 'select sync_state from pg_stat_replication')).includes('sync'));
}

async function startDatabases() {
  prepareFolder(primary);
  await database(primary, 'initdb', '-D', data(primary), '-U', 'postgres', '--auth=trust', '-E', 'UTF8', '--no-sync');
  writeFileSync(join(data(primary), 'pg_hba.conf'), 'host all all 10.0.0.0/24 trust\nhost replication all 10.0.0.0/24 trust\n');
  writeFileSync(
    join(data(primary), 'postgresql.auto.conf'),
    "listen_addresses = '*'\nsynchronous_standby_names = '*'\nwal_sender_timeout = 2s\nwal_receiver_timeout = 2s\nwal_retrieve_retry_interval = 500ms\nmax_connections = 200\n",
  );
  startDatabase(primary);
  await follow(standby, primary);
}

const CONFIGURATION = `
[server]
listen = ["0.0.0.0:8080"]
deadline = "${DEADLINE_MS}ms"

[admin]
listen = "127.0.0.1:0"

[cluster]
nats = "${machines.map(({ ip }) => `nats://${ip}:4222`).join(',')}"
job_replicas = 3

[store]
url = "postgres://postgres@${[primary, standby].map(({ ip }) => `${ip}:5432`).join(',')}/postgres?sslmode=disable"

[store.access]
Front = { read = "public", write = "public" }
Handler = { read = "public" }

[pool.api]
at = "cluster"
handler = "api.mjs"
runtime = "node"
workers = { min = 2, max = 2 }

[[route]]
path = "/write/*"
store = {}

[[route]]
path = "/job/:id"
pool = "api"

[[route]]
path = "/read/:id"
pool = "api"
retry = "idempotent"

[[route]]
path = "/later/:id"
pool = "api"
durable = { backoff = "1s" }
`;

/** Each run begins with a line in a file of its machine. */
const HANDLER = `
import { appendFileSync } from 'node:fs';
import { store } from 'forebay';

export default async (request) => {
  const [, kind, id] = request.path.split('/');
  appendFileSync('ran', kind + ' ' + id + '\\n');
  await new Promise((resolve) => setTimeout(resolve, Math.random() * 20));
  if (kind === 'job') store.set('Handler', id, 1);
  return { id };
};
`;

function startForebay(machine, name, args) {
  const folder = join(machine.folder, name);
  mkdirSync(folder);
  writeFileSync(join(folder, 'forebay.toml'), CONFIGURATION);
  writeFileSync(join(folder, 'api.mjs'), HANDLER);
  // A process that finds no database when it starts ends, and is started again, as a service manager does.
  machine.start(name, ['sh', '-c', 'until "$@"; do sleep 0.2; done', 'sh', BINARY, ...args]);
}

function startMachine(machine) {
  const routes = machines.filter((other) => other !== machine).map(({ ip }) => `nats://${ip}:6222`);
  const folder = join(machine.folder, 'nats');
  mkdirSync(folder);
  // A route to a machine that has fallen silent is given up after three seconds, not after four minutes.
  writeFileSync(
    join(folder, 'nats.conf'),
    `server_name: ${machine.name}\nlisten: "0.0.0.0:4222"\nping_interval: "1s"\nping_max: 2\njetstream { store_dir: "${folder}" }\n` +
      `cluster { name: test, listen: "0.0.0.0:6222", routes: [${routes.map((route) => `"${route}"`).join(', ')}] }\n`,
  );
  machine.start('nats', [NATS, '--config', join(folder, 'nats.conf')]);
  startForebay(machine, 'host', ['work', '--pool', 'api']);
  if (fronts.includes(machine)) startForebay(machine, 'front', ['serve']);
}

// ---- The load, and what is wrong about its answers.

const SUCCESS = { write: 201, job: 200, read: 200, later: 202 };
const KINDS = Object.keys(SUCCESS);
const acknowledged = { write: [], job: [], read: [], later: [] };
const violations = [];
const agent = new Agent({ keepAlive: true });
let numbers = 0;
let isOver = false;
/** Set while nothing is wrong: then no request may fail. */
let isSteady = false;
/** The answers since the last fault began, by kind and status, and the longest time to an answer. */
let seen = {};
let slowest_ms = 0;

const violation = (text) => {
  violations.push(text);
  if (violations.length <= SHOWN_MAX) console.log(`VIOLATION: ${text}`);
};

/** One request; resolves to its status, or to why there is none. */
const ask = (machine, kind, id) =>
  new Promise((resolve) => {
    const isWrite = kind === 'write';
    const [path, method] = isWrite ? [`/write/Front/${id}`, 'PUT'] : [`/${kind}/${id}`, kind === 'read' ? 'GET' : 'POST'];
    const request = httpRequest({ agent, host: machine.ip, port: 8080, path, method, timeout: DEADLINE_MS + SLACK_MS }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (part) => (text += part));
      response.on('end', () => resolve({ status: response.statusCode, text }));
      response.on('error', (error) => resolve({ status: error.code, text: error.message }));
    });
    request.on('timeout', () => request.destroy(Object.assign(new Error('no answer'), { code: 'TIMEOUT' })));
    request.on('error', (error) => resolve({ status: error.code, text: error.message }));
    // The timeout of a socket begins again with each byte; this one does not.
    const timer = setTimeout(() => request.destroy(Object.assign(new Error('no answer'), { code: 'TIMEOUT' })), DEADLINE_MS + SLACK_MS);
    request.on('close', () => clearTimeout(timer));
    request.end(isWrite ? '1' : undefined);
  });

/** What each front end and kind has last answered, for the wait for full service. */
const latest = new Map();

async function client(machine, kind) {
  while (!isOver) {
    const id = `${numbers++}`;
    const [began, wasSteady] = [Date.now(), isSteady];
    const { status, text } = await ask(machine, kind, id);
    const took_ms = Date.now() - began;
    const isAnswer = typeof status === 'number';
    if (isAnswer) slowest_ms = Math.max(slowest_ms, took_ms);
    seen[`${kind} ${status}`] = (seen[`${kind} ${status}`] ?? 0) + 1;
    const isGood = status === SUCCESS[kind];
    if (isGood) acknowledged[kind].push(id);
    const of = `${machine.name}/${kind}`;
    latest.set(of, isGood ? (latest.get(of) ?? 0) + 1 : 0);
    const what = `/${kind}/${id} to ${machine.name}: ${status} after ${took_ms} ms: ${text.slice(0, 300)}`;
    if (wasSteady && isSteady && !isGood) violation(`nothing is wrong, and ${what}`);
    // A kept connection may end just as a request goes out: the client cannot know, so that is no answer either, but no fault of the server.
    else if (!isAnswer && began > machine.cutOffUntil + DEADLINE_MS) violation(`no answer: ${what}`);
    await sleep(isGood ? PAUSE_MS : 5 * PAUSE_MS);
  }
}

/** Waits until every front end has answered several requests of every kind, one after the other. */
async function fullService() {
  latest.clear();
  const began = Date.now();
  await until('full service', () => fronts.every(({ name }) => KINDS.every((kind) => latest.get(`${name}/${kind}`) >= 3)), RECOVERY_MS);
  return Date.now() - began;
}

// ---- Faults: each breaks something and returns what it was, how it is healed, and which machines' clients it cuts off.

const hasNetem = spawnSync('tc', ['qdisc', 'add', 'dev', 'bridge', 'root', 'netem', 'delay', '1ms']).status === 0;
run('tc', ['qdisc', 'del', 'dev', 'bridge', 'root'], { allowed: true });
const SLOW = hasNetem ? ['netem', 'delay', '100ms', '20ms', 'loss', '1%'] : ['tbf', 'rate', '256kbit', 'burst', '3000', 'latency', '400ms'];

const FAULTS = {
  async kill() {
    const machine = pick(machines);
    await machine.killAll();
    return { what: `${machine.name} is killed`, heal: () => machine.startAll(), cutOff: [machine] };
  },
  async cut() {
    const machine = pick(machines);
    machine.cutOffUntil = Infinity;
    ip('link', 'set', machine.port, 'down');
    return { what: `${machine.name} is cut off`, heal: () => ip('link', 'set', machine.port, 'up'), cutOff: [machine] };
  },
  async slow() {
    const machine = pick(machines);
    run('tc', ['qdisc', 'add', 'dev', machine.port, 'root', ...SLOW]);
    return { what: `${machine.name} hears slowly (${SLOW.join(' ')})`, heal: () => run('tc', ['qdisc', 'del', 'dev', machine.port, 'root']), cutOff: [] };
  },
  async split() {
    const alone = pick(machines);
    const others = machines.filter((machine) => machine !== alone);
    for (const other of others) separate(alone, other, true);
    return { what: `${alone.name} and the others do not hear each other`, heal: () => others.forEach((other) => separate(alone, other, false)), cutOff: [] };
  },
  async failover() {
    // What the standby no longer gets must not be acknowledged.
    separate(primary, standby, true);
    await sleep(FAULT_MS[0]);
    await primary.kill('postgres');
    await sql(standby, 'select pg_promote()');
    separate(primary, standby, false);
    [primary, standby] = [standby, primary];
    return { what: `the database fails over to ${primary.name}`, heal: () => follow(standby, primary), cutOff: [] };
  },
  async restart() {
    await Promise.all(machines.map((machine) => machine.killAll()));
    return { what: 'everything is killed at once', heal: () => machines.forEach((machine) => machine.startAll()), cutOff: machines };
  },
  async clocks() {
    const machine = pick(fronts);
    const minutes = pick([-1, 1]);
    writeFileSync(machine.clock, `${minutes < 0 ? '-' : '+'}60\n`);
    const apart = async () => new Date((await fetch(`http://${machine.ip}:8080/`)).headers.get('date')) - Date.now();
    await until('the server tells the other time', async () => Math.abs((await apart()) - minutes * 60_000) < 5_000);
    return { what: `the clock of ${machine.name} is a minute ${minutes < 0 ? 'slow' : 'fast'}`, heal: () => writeFileSync(machine.clock, '+0\n'), cutOff: [] };
  },
};

async function oneFault(kind) {
  seen = {};
  slowest_ms = 0;
  isSteady = false;
  const { what, heal, cutOff } = await FAULTS[kind]();
  await sleep(options.short ? FAULT_MS[0] : FAULT_MS[0] + random() * (FAULT_MS[1] - FAULT_MS[0]));
  await heal();
  const took_ms = await fullService().catch((error) => violation(`${what}: ${error.message}`));
  for (const machine of cutOff) machine.cutOffUntil = Date.now();
  const failed = Object.entries(seen).filter(([key]) => SUCCESS[key.split(' ')[0]] !== Number(key.split(' ')[1]));
  const good = Object.entries(seen).reduce((sum, [, count]) => sum + count, 0) - failed.reduce((sum, [, count]) => sum + count, 0);
  const others = failed.map(([key, count]) => `${count} x ${key}`).join(', ') || 'none';
  console.log(`${kind.padEnd(9)} ${what}; full service ${took_ms} ms after it was healed; ${good} answered well, others: ${others}; slowest answer ${slowest_ms} ms`);
  isSteady = true;
  await sleep(STEADY_MS);
}

// ---- The histories.

async function check() {
  const ran = {};
  const read = () => {
    for (const kind of KINDS) ran[kind] = new Map();
    for (const { folder } of machines) {
      const file = join(folder, 'host', 'ran');
      for (const line of existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []) {
        const [kind, id] = line.split(' ');
        ran[kind].set(id, (ran[kind].get(id) ?? 0) + 1);
      }
    }
  };
  // As long as the server goes on with them: after a fault it lets a pool rest for half a minute at most.
  const left = () => (read(), acknowledged.later.filter((id) => !ran.later.has(id)).length);
  for (let [before, since] = [Infinity, Date.now()]; left() > 0 && Date.now() - since < JOBS_MS; await sleep(200)) {
    if (left() < before) [before, since] = [left(), Date.now()];
  }
  read();
  const written = async (machine, global) => {
    const lines = await (await fetch(`http://${machine.ip}:8080/write/${global}`, { headers: { accept: 'application/x-ndjson' } })).text();
    return new Set(lines.trim().split('\n').map((line) => JSON.parse(line).key));
  };
  for (const [kind, there] of [
    ['write', await written(fronts[0], 'Front')],
    ['job', await written(fronts[1], 'Handler')],
    ['job', ran.job],
    ['later', ran.later],
  ]) {
    const lost = acknowledged[kind].filter((id) => !there.has(id));
    if (lost.length > 0) violation(`${lost.length} of ${acknowledged[kind].length} acknowledged by /${kind} are lost: ${lost.slice(0, 10).join(', ')}`);
  }
  const twice = [...ran.job].filter(([, count]) => count > 1);
  if (twice.length > 0) violation(`${twice.length} jobs that are not idempotent began twice: ${twice.slice(0, 10).map(([id]) => id).join(', ')}`);
  const again = (kind) => [...ran[kind].values()].filter((count) => count > 1).length;
  const counts = KINDS.map((kind) => `${acknowledged[kind].length} of /${kind}`).join(', ');
  console.log(`Acknowledged: ${counts}. Run more than once: ${twice.length} of /job, ${again('read')} of /read, ${again('later')} of /later.`);
}

// ----

const kinds = options.only?.split(',') ?? Object.keys(FAULTS);
for (const kind of kinds) if (!(kind in FAULTS)) fail(`knows no fault ${kind}; there are ${Object.keys(FAULTS).join(', ')}`);
if (!existsSync(FAKETIME) && kinds.includes('clocks')) {
  console.log('Clocks stay together: libfaketime is not installed (Debian: apt-get install libfaketime).');
  kinds.splice(kinds.indexOf('clocks'), 1);
}
if (!hasNetem) console.log('The kernel has no netem: a slow link is one of 256 kbit/s with a buffer of 400 ms.');
const order = options.faults
  ? Array.from({ length: Number(options.faults) }, () => pick(kinds))
  : kinds.map((kind) => [random(), kind]).sort(([a], [b]) => a - b).map(([, kind]) => kind);
const began = Date.now();
console.log(`Seed ${seed}: ${order.join(', ')}`);
for (const machine of machines) startMachine(machine);
await startDatabases();
console.log(`Three machines run after ${Date.now() - began} ms.`);
const clients = fronts.flatMap((machine) => KINDS.flatMap((kind) => Array.from({ length: CLIENTS }, () => client(machine, kind))));
console.log(`Full service after ${await fullService()} ms.`);
for (const machine of machines) machine.cutOffUntil = Date.now();
isSteady = true;
await sleep(STEADY_MS);
for (const kind of order) await oneFault(kind);
isOver = true;
await Promise.all(clients);
await check();
console.log(violations.length === 0 ? `No violation in ${((Date.now() - began) / 1000).toFixed(0)} s.` : `${violations.length} violations; repeat them with --seed ${seed}`);
process.exit(violations.length === 0 ? 0 : 1);
