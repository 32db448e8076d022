import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { launchForebay, prepare } from '../forebay.mjs';
import { freePort, get, getWhenReady } from '../http.mjs';
import { watchOthers } from '../measure.mjs';
import { ownCpu_us, processTree } from '../proc.mjs';
import { launch, runToEnd, stop } from '../processes.mjs';
import { atLeast, atMost, ELSEWHERE_SHARE_MAX, row } from '../rows.mjs';
import { runWrk } from '../wrk.mjs';

const CONNECTIONS = 64;
/** Share of a core that a host gets, small enough that front end, broker and generator have what they need. */
const HOST_SHARE = 0.15;
/** Of a cgroup: short, so that a host does not stand still for long at a time. */
const CPU_PERIOD_US = 10_000;
const CPU_GROUPS = '/sys/fs/cgroup/cpu';
/** Requests of the clients that look for the moment when a dead host gets no more. */
const PROBE_TIMEOUT_MS = 2_000;
const PROBES = 16;

const POOL = '[pool.bench]\nhandler = "handler.mjs"\nruntime = "node"\nworkers = { min = 1, max = 1 }\n';
const ROUTE = '[[route]]\npath = "/helloworld"\npool = "bench"\n[[route]]\npath = "/work"\npool = "bench"\n[[route]]\npath = "/slow"\npool = "bench"\nretry = "never"\n';

/** A pool over NATS beside the same pool on this machine: CPU, latency, a second host, and a host that dies. */
export const cluster = {
  name: 'cluster',
  title: `a pool of one Node worker over NATS, beside the same pool without; ${CONNECTIONS} connections`,
  needsForebay: true,
  async run(context) {
    const hops = [];
    const hosts = [];
    const dead = { SIGKILL: [], SIGSTOP: [] };
    for (let number = 0; number < context.pairs; number += 1) {
      context.progress(`round ${number + 1} of ${context.pairs}, hop`);
      hops.push(await hop(context));
    }
    for (let number = 0; number < context.repeats; number += 1) {
      context.progress(`round ${number + 1} of ${context.repeats}, second host`);
      hosts.push(await secondHost(context));
      for (const signal of Object.keys(dead)) {
        context.progress(`round ${number + 1} of ${context.repeats}, ${signal} of a host`);
        dead[signal].push(await deadHost(context, signal));
      }
    }
    const clean = hops.filter(({ flags }) => flags.length === 0);
    const notes = clean.some(({ elsewhere }) => elsewhere > ELSEWHERE_SHARE_MAX) ? ['(machine not quiet)'] : [];
    const of = hops.length;
    const cpu = (what, part) => row({ what: `CPU a request, ${what}`, unit: 'us', samples: clean.map(part), of, notes });
    const added = hosts.filter(({ flags }) => flags.length === 0);
    return {
      hops,
      hosts,
      rows: [
        row({ what: 'CPU a request, all processes: over NATS : local', bar: atMost(4), samples: clean.map(({ local, nats }) => sum(nats.cpu) / sum(local.cpu)), of, notes }),
        row({ what: 'the same without the worker', samples: clean.map(({ local, nats }) => (sum(nats.cpu) - nats.cpu.worker) / (sum(local.cpu) - local.cpu.worker)), of, notes }),
        cpu('local: server', ({ local }) => local.cpu.front),
        cpu('local: worker', ({ local }) => local.cpu.worker),
        cpu('over NATS: front end', ({ nats }) => nats.cpu.front),
        cpu('over NATS: broker', ({ nats }) => nats.cpu.broker),
        cpu('over NATS: host', ({ nats }) => nats.cpu.host),
        cpu('over NATS: worker', ({ nats }) => nats.cpu.worker),
        ...['front', 'broker', 'host', 'worker'].map((part) => cpu(`over NATS, one at a time: ${part}`, ({ single }) => single.cpu[part])),
        row({ what: 'over NATS, one at a time: p50', unit: 'us', samples: clean.map(({ single }) => single.p50_us), of, notes }),
        row({ what: 'requests/s, local', samples: clean.map(({ local }) => local.requests_per_s), of, notes }),
        row({ what: 'requests/s, over NATS', samples: clean.map(({ nats }) => nats.requests_per_s), of, notes }),
        row({ what: 'over NATS at half of that: p99', unit: 'ms', bar: atMost(5), samples: clean.map(({ half }) => half.p99_ms), of, notes }),
        row({ what: 'over NATS at half of that: p50', unit: 'ms', samples: clean.map(({ half }) => half.p50_ms), of, notes }),
        row({ what: 'local at the same rate: p99', unit: 'ms', samples: clean.map(({ localHalf }) => localHalf.p99_ms), of, notes }),
        row({ what: `what a second host with ${HOST_SHARE} cores adds, in capacities of the first`, bar: atLeast(0.8), samples: added.map(({ one, two }) => two / one - 1), of: hosts.length }),
        row({ what: 'a killed host gets its last request after', unit: 'ms', bar: atMost(1000), samples: dead.SIGKILL.map(({ last_ms }) => last_ms) }),
        row({ what: 'a host that falls silent gets its last request after', unit: 'ms', bar: atMost(1000), samples: dead.SIGSTOP.map(({ last_ms }) => last_ms) }),
      ],
    };
  },
};

const sum = (parts) => Object.values(parts).reduce((sum, part) => sum + part, 0);

/** Starts a NATS server, a front end and hosts, each with one worker; `end` ends all. */
async function startCluster({ binary, folder }, hostCount) {
  const port = await freePort();
  const broker = launch('nats-server', process.env.FOREBAY_NATS ?? fileURLToPath(new URL('../../target/nats/nats-server', import.meta.url)), ['--addr', '127.0.0.1', '--port', String(port)], { env: process.env });
  const more = `[cluster]\nnats = "nats://127.0.0.1:${port}"\n${POOL}at = "cluster"\n${ROUTE}`;
  const started = [broker];
  const end = async () => {
    for (const process_ of started) await stop(process_);
  };
  try {
    await broker.waitForOutput(/Server is ready/, 15_000);
    const hosts = [];
    for (let number = 0; number < hostCount; number += 1) {
      hosts.push(launchForebay(binary, await prepare(folder, { more }), ['--pool', 'bench'], 'work'));
      started.push(hosts.at(-1));
    }
    const prepared = await prepare(folder, { more });
    const front = launchForebay(binary, prepared);
    started.push(front);
    await front.waitForOutput(/started in/, 15_000);
    const ready = async () => JSON.parse((await get(`http://127.0.0.1:${prepared.adminPort}/status`)).body).pools[0].workers.filter(({ phase }) => phase === 'ready').length;
    while ((await ready()) < hostCount) await delay(20);
    return { url: `http://127.0.0.1:${prepared.port}`, broker, front, hosts, end };
  } catch (error) {
    await end();
    throw error;
  }
}

/** Own CPU time of a process, and that of the processes below it. */
const cpuOf = (process_) => {
  const [own, ...below] = processTree(process_.pid);
  return { own: own.own_us, below: below.reduce((sum, { own_us }) => sum + own_us, 0) };
};

async function loaded({ warmup_s, seconds }, url, read, connections = CONNECTIONS) {
  await runWrk(url, { connections, seconds: warmup_s });
  const before = read();
  const load = await runWrk(url, { connections, seconds });
  const after = read();
  const cpu = Object.fromEntries(Object.entries(after).map(([part, us]) => [part, (us - before[part]) / load.requests]));
  const errors = Object.entries(load.errors).filter(([, count]) => count > 0).map(([cause, count]) => `${count} ${cause} errors`);
  return { cpu, requests_per_s: load.requests_per_s, p50_us: load.p50_us, errors };
}

/** The latencies of requests at a rate, from when each was due. */
async function latencies({ binary, seconds, warmup_s }, url, rate) {
  const args = ['load', `${url}/helloworld`, '--rate', String(rate), '-c', String(CONNECTIONS), '-d', `${seconds}s`, '--warmup', `${warmup_s}s`, '--json', '--quiet'];
  const { latency_ms } = JSON.parse(await runToEnd('forebay load', binary, args, { env: process.env }));
  return { rate, p50_ms: latency_ms.p50, p99_ms: latency_ms.p99 };
}

/** The same route on a pool over NATS and on a local one, both also at half of the rate that the former reaches. */
async function hop(context) {
  const others = watchOthers();
  const { url, broker, front, hosts, end } = await startCluster(context, 1);
  let nats, single, half;
  try {
    const read = () => {
      const host = cpuOf(hosts[0]);
      return { front: ownCpu_us(front.pid), broker: ownCpu_us(broker.pid), host: host.own, worker: host.below };
    };
    nats = await loaded(context, `${url}/helloworld`, read);
    single = await loaded(context, `${url}/helloworld`, read, 1);
    half = await latencies(context, url, Math.round(nats.requests_per_s / 2));
  } finally {
    await end();
  }
  const prepared = await prepare(context.folder, { more: POOL + ROUTE });
  const server = launchForebay(context.binary, prepared);
  try {
    await server.waitForOutput(/started in/, 15_000);
    await getWhenReady(`http://127.0.0.1:${prepared.adminPort}/health/ready`, server);
    const own = `http://127.0.0.1:${prepared.port}`;
    const local = await loaded(context, `${own}/helloworld`, () => {
      const { own, below } = cpuOf(server);
      return { front: own, worker: below };
    });
    const localHalf = await latencies(context, own, half.rate);
    return { local, localHalf, nats, single, half, flags: [...local.errors, ...nats.errors], elsewhere: others() };
  } finally {
    await stop(server);
  }
}

/** Keeps a process and what it starts from now on to a share of a core. */
function limitCpu(process_, share) {
  const group = `${CPU_GROUPS}/forebay-bench-${process_.pid}`;
  mkdirSync(group);
  writeFileSync(`${group}/cpu.cfs_period_us`, String(CPU_PERIOD_US));
  writeFileSync(`${group}/cpu.cfs_quota_us`, String(Math.round(CPU_PERIOD_US * share)));
  for (const { pid } of processTree(process_.pid)) {
    try {
      writeFileSync(`${group}/cgroup.procs`, String(pid));
    } catch (error) {
      if (error.code !== 'ESRCH') throw error; // ended while we looked
    }
  }
  return async () => {
    // Its processes have been killed; they are in the group until they have ended.
    while (readFileSync(`${group}/cgroup.procs`, 'utf8') !== '') await delay(10);
    rmdirSync(group);
  };
}

/** The rate of one host and of two, each with its share of a core and as many connections, for a handler that computes. */
async function secondHost(context) {
  const rates = [];
  const flags = [];
  for (const count of [1, 2]) {
    const { url, hosts, end } = await startCluster(context, count);
    const groups = [];
    try {
      for (const host of hosts) groups.push(limitCpu(host, HOST_SHARE));
      const load = await loaded(context, `${url}/work`, () => ({}), count * CONNECTIONS);
      rates.push(load.requests_per_s);
      flags.push(...load.errors);
    } finally {
      await end();
      for (const remove of groups) await remove();
    }
  }
  return { one: rates[0], two: rates[1], flags };
}

/** How long after a signal to one of two hosts it is still given requests: they fail, or remain without an answer. */
async function deadHost(context, signal) {
  const { url, hosts, end } = await startCluster(context, 2);
  const bad = [];
  let isOver = false;
  const client = async () => {
    while (!isOver) {
      const began = performance.now();
      const answer = await fetch(`${url}/slow?ms=1`, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) }).catch(() => ({ status: 0, arrayBuffer() {} }));
      await answer.arrayBuffer();
      if (answer.status !== 200) bad.push(began);
    }
  };
  try {
    const clients = Array.from({ length: PROBES }, client);
    await delay(1000 * context.warmup_s);
    const died = performance.now();
    if (bad.length > 0) throw new Error(`${bad.length} requests failed before a host died`);
    process.kill(hosts[0].pid, signal);
    await delay(2 * PROBE_TIMEOUT_MS);
    isOver = true;
    await Promise.all(clients);
    return { last_ms: Math.max(0, ...bad.map((began) => began - died)), failed: bad.length };
  } finally {
    await end();
  }
}
