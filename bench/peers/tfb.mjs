// The peers of the PostgreSQL suites: each implements the routes of the TechEmpower benchmarks on the same database.

import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { withoutPassword } from '../database.mjs';
import { freePort, getWhenReady } from '../http.mjs';
import { launch } from '../processes.mjs';
import { runWrk } from '../wrk.mjs';
import { bun, lackingPackage, program } from './installed.mjs';

const START_TIMEOUT_MS = 15_000;

const axumProgram = fileURLToPath(new URL('axum/target/release/forebay-bench-axum', import.meta.url));
const light4j = fileURLToPath(new URL('light4j/', import.meta.url));

const environment = (url) => ({ PATH: process.env.PATH, NODE_ENV: 'production', FOREBAY_PG_URL: url });

async function startListening(name, command, args, env) {
  const process_ = launch(name, command, args, { env });
  const [, url] = await process_.waitForOutput(/listening on (http:\S+)/, START_TIMEOUT_MS);
  return { process: process_, url };
}

const PATHS = {
  db: '/db',
  'one row': '/worlds/4711',
  'queries=10': '/queries?queries=10',
  'queries=20': '/queries?queries=20',
  'updates=20': '/updates?queries=20',
  fortunes: '/fortunes',
};

const { 'one row': _, ...withoutOne } = PATHS;

/** axum with tokio-postgres, one pipelined connection per thread. */
export const axum = ({ url }) => ({
  name: 'axum',
  paths: PATHS,
  lacking: () => (existsSync(axumProgram) ? null : 'cargo build --release --manifest-path bench/peers/axum/Cargo.toml'),
  start: () => startListening('axum', axumProgram, [url], {}),
});

/** Fastify with one process per core, with the package `postgres` or `pg`. */
export const fastifyWith = (client, { url }) => ({
  name: `Fastify, ${client}`,
  paths: withoutOne,
  lacking: () => lackingPackage(client),
  start: () => startListening(`Fastify with ${client}`, process.execPath, [program('tfb/fastify.mjs'), client], environment(url)),
});

/** Bun.serve with Bun.sql, with one process per core. */
export const bunSql = ({ url }) => ({
  name: 'Bun.sql',
  paths: withoutOne,
  lacking: () => lackingPackage('bun'),
  start: () => startListening('Bun.sql', bun, [program('tfb/bun.mjs')], environment(url)),
});

const LIGHT4J_PATHS = { waiting: '/queries', asynchronous: '/queries2' };
/** Warm-up for each path before it is timed, because a virtual machine compiles frequently run code. */
const LIGHT4J_WARMUP_S = 5;

/**
 * light-4j with a Hikari pool of `connections` connections, and as many of postgres-async-driver, which pipelines the statements of a
 * connection unless `pipelined` is false. Unless `prepared` is false, the former prepares its statements on the server; the latter never
 * does. Its paths are those of `loads`, which specify `driver` and `queries`.
 */
export const light4jWith = (connections, loads, database, { name = 'light-4j', pipelined = true, prepared = true } = {}) => {
  const asked = loads.filter(({ driver }) => driver !== undefined);
  return {
    name,
    paths: Object.fromEntries(asked.map(({ name, driver, queries }) => [name, `${LIGHT4J_PATHS[driver]}?queries=${queries}`])),
    lacking: () => (existsSync(`${light4j}target/bench-light4j.jar`) ? null : 'mvn -q -B package -f bench/peers/light4j/pom.xml'),
    async start() {
      const port = await freePort();
      const env = { ...environment(withoutPassword(database)), CONNECTIONS: String(connections), PIPELINED: String(pipelined), PREPARE_THRESHOLD: prepared ? '5' : '0', SERVER_HTTPPORT: String(port) };
      const process_ = launch('light-4j', 'java', ['-cp', `${light4j}target/bench-light4j.jar:${light4j}target/lib/*`, 'com.networknt.server.Server'], { env });
      const url = `http://127.0.0.1:${port}`;
      await getWhenReady(`${url}/queries`, process_);
      for (const path of Object.values(LIGHT4J_PATHS)) await runWrk(`${url}${path}?queries=10`, { connections: 32, seconds: LIGHT4J_WARMUP_S });
      return { process: process_, url };
    },
  };
};

/** Versions of the peers that do not come from npm, by name. */
export function tfbVersions() {
  const locked = (file, pattern) => pattern.exec(readFileSync(new URL(file, import.meta.url), 'utf8'))[1];
  return {
    axum: locked('axum/Cargo.lock', /name = "axum"\nversion = "([^"]+)"/),
    'tokio-postgres': locked('axum/Cargo.lock', /name = "tokio-postgres"\nversion = "([^"]+)"/),
    'light-4j': locked('light4j/pom.xml', /<light4j>([^<]+)</),
  };
}
