// Machines as network namespaces on one bridge, and how their processes start and die. All processes live in one PID namespace and all interfaces
// in one network namespace of their own: both end with this program, however it ends. It needs Linux and root, `ip` (iproute2), `unshare`,
// `nsenter` and `setpriv` (util-linux), and, for clocks that disagree, libfaketime.

import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

export const ROOT = join(dirname(fileURLToPath(import.meta.url)), '../..');
export const BINARY = process.env.FOREBAY_BINARY ?? join(process.env.CARGO_TARGET_DIR ?? join(ROOT, 'target'), 'debug/forebay');
export const NATS = process.env.FOREBAY_NATS ?? join(ROOT, 'target/nats/nats-server');
export const FAKETIME = '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1';

/** Ends the program: something is missing or wrong. */
export function fail(text) {
  console.error(`make cluster: ${text}`);
  process.exit(1);
}

/** Runs a program to its end and returns what it prints. */
export function run(command, args, { allowed = false, ...options } = {}) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { encoding: 'utf8', ...options });
  if (status !== 0 && !allowed) throw new Error(`${command} ${args.join(' ')}: ${error?.message ?? stderr}`);
  return stdout ?? '';
}

// The program starts itself again, as the first process of its own namespaces.
if (!process.env.FOREBAY_CLUSTER_FOLDER) {
  if (process.getuid() !== 0) fail('needs root, because it makes network namespaces');
  if (spawnSync('unshare', ['--net', '--pid', '--mount', '--fork', 'ip', 'link', 'add', 'try', 'type', 'bridge']).status !== 0) {
    fail('cannot make namespaces and a bridge: it needs unshare, ip and their permissions (in a container: --privileged)');
  }
  const folder = mkdtempSync(join(tmpdir(), 'forebay-cluster-'));
  const child = spawn('unshare', ['--net', '--pid', '--mount', '--fork', '--kill-child', '--mount-proc', process.execPath, ...process.argv.slice(1)], {
    env: { ...process.env, FOREBAY_CLUSTER_FOLDER: folder },
    stdio: ['pipe', 'inherit', 'inherit'],
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill('SIGKILL'));
  const code = await new Promise((resolve) => child.on('exit', resolve));
  if (process.argv.includes('--keep') || (code !== 0 && code !== null)) console.log(`The logs are in ${folder}`);
  else rmSync(folder, { recursive: true, force: true });
  process.exit(code ?? 1);
}
// The other end of this pipe closes with the first process, even if that is killed.
process.stdin.resume().on('end', () => process.exit(1)).unref();

/** The folder of the first process, at a place that no other mount hides. */
export const FOLDER = '/run/cluster';
chmodSync(process.env.FOREBAY_CLUSTER_FOLDER, 0o755);
run('mount', ['-t', 'tmpfs', 'none', '/run']);
mkdirSync(FOLDER);
run('mount', ['--bind', process.env.FOREBAY_CLUSTER_FOLDER, FOLDER]);

/** Runs `ip`. */
export const ip = (...args) => run('ip', args);
ip('link', 'set', 'lo', 'up');
ip('link', 'add', 'bridge', 'type', 'bridge');
ip('addr', 'add', '10.0.0.254/24', 'dev', 'bridge');
ip('link', 'set', 'bridge', 'up');

/** A machine: an address on the bridge, a folder, a clock, and processes. */
export class Machine {
  units = new Map();
  /** Until when requests to it may have remained without an answer. */
  cutOffUntil = Infinity;

  constructor(number) {
    this.name = `m${number}`;
    this.ip = `10.0.0.${number}`;
    this.port = `port${number}`; // of the bridge
    this.folder = join(FOLDER, this.name);
    this.clock = join(this.folder, 'clock');
    mkdirSync(this.folder);
    writeFileSync(this.clock, '+0\n');
    ip('netns', 'add', this.name);
    ip('link', 'add', this.port, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', this.name);
    ip('link', 'set', this.port, 'master', 'bridge', 'up');
    this.inside('addr', 'add', `${this.ip}/24`, 'dev', 'eth0');
    this.inside('link', 'set', 'eth0', 'up');
    this.inside('link', 'set', 'lo', 'up');
  }

  inside(...args) {
    ip('-n', this.name, ...args);
  }

  /** Starts a process of this machine: in a PID namespace of its own, so that everything it starts ends with it. */
  start(name, command, { env = {}, uid = 0, cwd = join(this.folder, name) } = {}) {
    const clock = existsSync(FAKETIME) && { LD_PRELOAD: FAKETIME, FAKETIME_TIMESTAMP_FILE: this.clock, FAKETIME_CACHE_DURATION: '1', FAKETIME_DONT_FAKE_MONOTONIC: '1' };
    const variables = Object.entries({ ...clock, ...env }).map(([key, value]) => `${key}=${value}`);
    const namespaces = ['--pid', '--uts', '--mount', '--fork', '--kill-child', '--mount-proc', 'nsenter', `--net=/run/netns/${this.name}`];
    const user = ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups'];
    // libfaketime shares memory by process number, which other namespaces have, too.
    const shell = ['sh', '-c', `hostname ${this.name}; mount -t tmpfs none /dev/shm; exec "$@"`, 'sh'];
    const log = openSync(join(this.folder, `${name}.log`), 'a');
    const child = spawn('unshare', [...namespaces, ...shell, ...user, 'env', ...variables, ...command], { cwd, stdio: ['ignore', log, log] });
    child.ended = new Promise((resolve) => child.once('exit', resolve));
    this.units.set(name, { child, again: () => this.start(name, command, { env, uid, cwd }) });
  }

  /** Kills one of its processes with all that it has started. */
  async kill(name) {
    const { child } = this.units.get(name);
    // `unshare` waits for the first process of the namespace, which ends after all others.
    for (const first of readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim().split(' ')) process.kill(Number(first), 'SIGKILL');
    await child.ended;
  }

  async killAll() {
    this.cutOffUntil = Infinity;
    await Promise.all([...this.units.keys()].map((name) => this.kill(name)));
  }

  startAll() {
    for (const { again } of [...this.units.values()]) again();
  }
}

/** Waits for a condition; what it throws counts as no. */
export async function until(what, holds, patience_ms = 30_000) {
  const end = Date.now() + patience_ms;
  for (let error; ; await sleep(50)) {
    try {
      if (await holds()) return;
    } catch (caught) {
      error = caught;
    }
    if (Date.now() > end) throw new Error(`${what}: not within ${patience_ms} ms${error ? ` (${error.message.trim()})` : ''}`);
  }
}

