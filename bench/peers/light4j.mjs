// light-4j with the routes of the TechEmpower benchmarks, for the suite of drivers.

import { existsSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { withoutPassword } from '../database.mjs';
import { freePort, getWhenReady } from '../http.mjs';
import { launch } from '../processes.mjs';
import { runWrk } from '../wrk.mjs';

const light4j = fileURLToPath(new URL('light4j/', import.meta.url));

const environment = (url) => ({ PATH: process.env.PATH, NODE_ENV: 'production', FOREBAY_PG_URL: url });

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

/** Its version. */
export const light4jVersion = () => /<light4j>([^<]+)</.exec(readFileSync(new URL('light4j/pom.xml', import.meta.url), 'utf8'))[1];
