// The subject: the built `forebay` binary, started with configurations written by the benchmark.

import { appendFileSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { freePort, getWhenReady } from './http.mjs';
import { commands } from './peers/installed.mjs';
import { launch, runToEnd } from './processes.mjs';

const START_TIMEOUT_MS = 15_000;
/** For a store whose indexes have to be built at the start. */
const FILLED_START_TIMEOUT_MS = 120_000;

// The handler for the pools of all suites. /slow blocks its process without using CPU, as a synchronous database call does; /work computes.
const HANDLER = `
import { router } from 'forebay';

const app = router();

app.get('/helloworld', () => ({ hello: 'world' }));
app.get('/slow', (request) => {
  const sleeper = new Int32Array(new SharedArrayBuffer(4));
  const ms = Number(new URL(request.url, 'http://bench').searchParams.get('ms'));
  Atomics.wait(sleeper, 0, 0, ms);
  return { slept: ms };
});
app.get('/work', () => {
  let value = 1;
  for (let round = 0; round < 40_000; round += 1) value = (value * 16_807) % 2_147_483_647;
  return { value };
});

export default app;
`;

/**
 * The text of a forebay.toml: /local from memory; with `canned`, `{path, body}`, this JSON from memory as well; with `store`, the store,
 * whose global Person is readable and writable for anyone below /store/; and with `pool`, everything else from a pool of
 * `{runtime, workers, queue_max, handler, python}` with exactly that many workers, or with `script` from a script. `more` is further
 * configuration, which replaces the store's section; `server` further lines of `[server]`. With `tls`, `{cert, key}`, the listener speaks
 * TLS. Limits that the load would reach are raised; everything else keeps its default.
 */
function configuration({ port, adminPort, pool, script, canned, store, more, server = '', tls, connections_max = 2000 }) {
  const sections = [
    `[server]
listen = ["${tls ? 'https://' : ''}127.0.0.1:${port}"]
connections_max = ${connections_max}
${server}

[admin]
listen = "127.0.0.1:${adminPort}"
socket = "forebay.sock"

[log]
level = "warn"`,
  ];
  if (tls) sections.push(`[tls.bench]\ncert = "${tls.cert}"\nkey = "${tls.key}"`);
  if (store) sections.push(`[store]\npath = "data"\n\n[store.access]\nPerson = { read = "public", write = "public" }`);
  if (pool) {
    sections.push(`[pool.bench]
handler = "${pool.handler ?? 'handler.mjs'}"
runtime = "${pool.runtime}"
${pool.python ? `python = "${pool.python}"\n` : ''}workers = { min = ${pool.workers}, max = ${pool.workers} }
queue_max = ${pool.queue_max ?? 1024}`);
  }
  sections.push(`[[route]]
path = "/local"
respond = { json = { status = "success", result = "local" } }`);
  if (canned) sections.push(`[[route]]\npath = "${canned.path}"\nrespond = { text = '${canned.body}', content_type = "application/json" }`);
  if (store) sections.push(`[[route]]\npath = "/store/*"\nstore = {}`);
  if (pool) sections.push(`[[route]]\npath = "/*"\npool = "bench"`);
  if (script) sections.push(`[script.bench]\nhandler = "handler.mjs"\n\n[[route]]\npath = "/*"\nscript = "bench"`);
  if (more) sections.push(more);
  return `${sections.join('\n\n')}\n`;
}

/** Writes configuration, handler and `files`, by name, to a new folder below `folder`; returns how to start Forebay with them. */
export async function prepare(folder, options) {
  const own = mkdtempSync(join(folder, 'forebay-'));
  const [port, adminPort] = [await freePort(), await freePort()];
  const file = join(own, 'forebay.toml');
  writeFileSync(file, configuration({ ...options, port, adminPort }));
  writeFileSync(join(own, 'handler.mjs'), HANDLER);
  for (const [name, text] of Object.entries(options.files ?? {})) writeFileSync(join(own, name), text);
  return { file, port, adminPort };
}

/**
 * Imports lines of `forebay store export`, in one text or several, into the store of a prepared configuration, before its server starts.
 */
async function seed(binary, { file }, lines) {
  const seedFile = join(dirname(file), 'seed.ndjson');
  for (const text of typeof lines === 'string' ? [lines] : lines) appendFileSync(seedFile, text);
  await runToEnd('forebay store import', binary, ['store', 'import', seedFile, '--data', join(dirname(file), 'data')]);
  rmSync(seedFile);
}

/** Starts the binary with a prepared configuration and further flags, `serve` or another command, without waiting for it to be ready. */
export function launchForebay(binary, { file }, flags = [], command = 'serve') {
  const env = { PATH: `${commands}:${process.env.PATH}`, HOME: process.env.HOME ?? '/' };
  return launch('forebay', binary, [command, '-c', file, ...flags], { env });
}

/**
 * One side of a comparison: Forebay with the given options (see `configuration`), ready when its pools are up. `seed` is NDJSON for
 * its store; with `load`, the side has its own load (see pairs.mjs).
 */
export function forebay(binary, name, { load, ...options } = {}) {
  return {
    name,
    load,
    async start(folder) {
      const prepared = await prepare(folder, options);
      if (options.seed) await seed(binary, prepared, options.seed);
      const process_ = launchForebay(binary, prepared);
      const timeout_ms = options.seed ? FILLED_START_TIMEOUT_MS : START_TIMEOUT_MS;
      const [, url] = await process_.waitForOutput(/started in .*listening on (https?:[^\s,]+)/, timeout_ms);
      const adminUrl = `http://127.0.0.1:${prepared.adminPort}`;
      await getWhenReady(`${adminUrl}/health/ready`, process_, { timeout_ms });
      return { process: process_, url, adminUrl };
    },
  };
}
