import { join } from 'node:path';
import { contest, pairOf } from '../contest.mjs';
import { forebay, prepare } from '../forebay.mjs';
import { onPath } from '../generators.mjs';
import { get } from '../http.mjs';
import { nginxTls } from '../peers/nginx.mjs';
import { runToEnd } from '../processes.mjs';
import { atLeast, atMost, ratioRow, row } from '../rows.mjs';
import { runWrk } from '../wrk.mjs';
import { LOCAL } from './bodies.mjs';
import { CONNECTIONS, crowdedRss } from './idle.mjs';

const STREAMS = 100;
const LOCAL_ANSWER = /^\{"status":"success","result":"local"\}$/;

/** Full handshakes of TLS 1.3, each on a new connection without a request; `connections` is the number of processes that make them. */
const HANDSHAKES = { name: 'full handshakes', connections: [2], answers: LOCAL_ANSWER, drive: shakeHands };
const HTTP2 = { name: `HTTP/2, ${STREAMS} streams each`, connections: [8], answers: LOCAL_ANSWER, drive: runH2load };

/** 10 KB of JSON, as a list of records compresses. */
const RECORDS = Array.from({ length: 100 }, (_, at) => ({
  id: 1000 + at,
  name: `Customer ${(at * 7919) % 10_007}`,
  email: `customer${at}@example.com`,
  balance: ((at * 104_729) % 1_000_003) / 100,
  active: at % 3 === 0,
}));
const ROUTES = [
  { name: 'respond', path: '/respond' },
  { name: 'a Node pool', path: '/constant' },
];
/** Each route without compression, which a client has that does not ask for it, and in two codings. */
const CODED = ROUTES.flatMap(({ name, path }) =>
  [undefined, 'zstd', 'gzip'].map((coding) => ({
    name: `10 KB of JSON from ${name}, ${coding ?? 'not compressed'}`,
    path,
    connections: [LOCAL.connections],
    answers: /^\[\{"id":1000,/,
    drive: (server, amounts) => runCoded(server, path, coding, amounts),
  })),
);
const COMPRESSING = {
  server: 'compress = "always"\ncompress_cpu_max = 1',
  canned: { path: ROUTES[0].path, body: JSON.stringify(RECORDS) },
  pool: { runtime: 'node', workers: 1, handler: 'constant.mjs' },
  files: {
    'constant.mjs': `import { router } from 'forebay';
const records = ${JSON.stringify(RECORDS)};
const app = router();
app.get('${ROUTES[1].path}', () => records);
export default app;
`,
  },
};

/** What clients meet first: handshakes, HTTP/2 with many streams, memory of TLS connections, compression. */
export const front = {
  name: 'front',
  title: 'TLS handshakes and HTTP/2 beside nginx, memory of TLS connections, the cost of compression',
  needsForebay: true,
  async run(context) {
    const tls = await makeCertificate(context.folder);
    const [http2IsThere, compresses] = [onPath('h2load')(), await knowsCompression(context)];
    const loads = [HANDSHAKES, ...(http2IsThere ? [HTTP2] : []), ...CODED];
    const local = Object.fromEntries([HANDSHAKES, HTTP2].map(({ name }) => [name, LOCAL.path]));
    const peer = { ...nginxTls(tls), paths: local };
    const own = { ...forebay(context.binary, 'Forebay, TLS', { tls }), paths: local };
    const compressing = {
      ...forebay(context.binary, 'Forebay, compress = "always"', COMPRESSING),
      paths: Object.fromEntries(CODED.map(({ name, path }) => [name, path])),
    };
    const rounds = await contest(context, [peer, own, ...(compresses ? [compressing] : [])], loads);

    const perCpu = ({ name, connections }) => [pairOf(rounds, { name }, connections[0], peer.name, own.name), 'cpu_us_per_request'];
    const rows = [ratioRow(...perCpu(HANDSHAKES), { what: 'handshakes per CPU second, Forebay : nginx', bar: atLeast(0.9) })];
    const what = `HTTP/2, ${HTTP2.connections} connections with ${STREAMS} streams each: requests`;
    if (http2IsThere) {
      rows.push(ratioRow(...perCpu(HTTP2), { what: `${what} per CPU second, Forebay : nginx`, bar: atLeast(0.9) }));
      rows.push(ratioRow(pairOf(rounds, HTTP2, HTTP2.connections[0], own.name, peer.name), 'requests_per_s', { what: `${what}/s, Forebay : nginx` }));
    } else {
      rows.push(unmeasured(what, context.pairs, 'h2load not found: apt-get install nghttp2-client'));
    }
    rows.push(await memoryRow(context, tls));
    if (compresses) rows.push(...CODED.map((load) => cpuRow(rounds, load, compressing)));
    else rows.push(unmeasured('CPU of compression', context.pairs, 'this binary does not know the key `compress`'));
    return { rows, contest: rounds };
  },
};

const unmeasured = (what, of, reason) => row({ what, samples: [], of, notes: [`not measured: ${reason}`] });

/** A P-256 certificate for 127.0.0.1, signed by itself, and its key. */
async function makeCertificate(folder) {
  const tls = { cert: join(folder, 'front.crt'), key: join(folder, 'front.key') };
  const kind = ['-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2'];
  const names = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=IP:127.0.0.1,DNS:localhost'];
  await runToEnd('openssl req', 'openssl', ['req', ...kind, ...names, '-keyout', tls.key, '-out', tls.cert]);
  return tls;
}

/** Whether the binary accepts a configuration that compresses. */
async function knowsCompression({ binary, folder }) {
  const { file } = await prepare(folder, COMPRESSING);
  try {
    await runToEnd('forebay check', binary, ['check', '-c', file]);
    return true;
  } catch (error) {
    if (/server\.compress: no such key/.test(error.message)) return false;
    throw error;
  }
}

/** Handshakes by processes of `openssl s_time`, which measure in whole seconds and may take one more; `errors` is empty, since one fails the run. */
async function shakeHands({ url }, { connections, seconds }) {
  const args = ['s_time', '-connect', new URL(url).host, '-new', '-tls1_3', '-time', String(seconds)];
  const began = performance.now();
  const outputs = await Promise.all(Array.from({ length: connections }, () => runToEnd('openssl s_time', 'openssl', args)));
  const wall_s = (performance.now() - began) / 1e3;
  const requests = outputs.map(parseHandshakes).reduce((sum, count) => sum + count);
  return { requests, seconds: wall_s, requests_per_s: requests / wall_s, errors: {} };
}

/** The number of handshakes that `openssl s_time` printed. */
export function parseHandshakes(output) {
  const match = /^(\d+) connections in \d+ real seconds/m.exec(output);
  if (!match) throw new Error(`openssl s_time printed no number of connections:\n${output.slice(-300)}`);
  return Number(match[1]);
}

async function runH2load(server, { connections, seconds }) {
  const args = ['-c', connections, '-m', STREAMS, '-D', seconds, server.url + LOCAL.path].map(String);
  return { ...parseH2load(await runToEnd('h2load', 'h2load', args)), seconds };
}

/** The result of one run of `h2load -D`, which prints no percentiles. Throws if a figure is missing, or if it did not speak HTTP/2. */
export function parseH2load(output) {
  const find = (what, pattern) => {
    const match = pattern.exec(output);
    if (!match) throw new Error(`h2load printed no ${what}:\n${output}`);
    return match.slice(1).map(Number);
  };
  find('HTTP/2', /^Application protocol: h2$/m);
  const [requests, failed] = find('number of requests', /^requests: .* (\d+) done, \d+ succeeded, (\d+) failed/m);
  const [moved, refused, broken] = find('status codes', /^status codes: \d+ 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx/m);
  const [requests_per_s] = find('rate', /^finished in .*, ([\d.]+) req\/s/m);
  return { requests, requests_per_s, errors: { failed, status: moved + refused + broken } };
}

/** wrk on a route whose answers have the coding, without one if it is undefined; answers that were left as they are count as errors. */
async function runCoded(server, path, coding, amounts) {
  const asked = coding === undefined ? {} : { 'accept-encoding': coding };
  const { headers } = await get(server.url + path, asked);
  const got = headers['content-encoding'];
  if (got !== coding) throw server.process.failure(`answered ${path} for ${coding ?? 'no coding'} with content-encoding ${got}`);
  const load = await runWrk(server.url + path, { ...amounts, header: coding && `accept-encoding: ${coding}` });
  const { body } = await get(`${server.adminUrl}/metrics`);
  const skipped = [...body.matchAll(/^forebay_compression_skipped_total\{.*\} (\d+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0);
  return { ...load, errors: { ...load.errors, 'not compressed': skipped } };
}

async function memoryRow(context, tls) {
  const runs = [];
  for (let number = 0; number < context.repeats; number += 1) runs.push(await crowdedRss(context, tls));
  const samples = runs.flatMap((run) => run.samples);
  const notes = [...new Set(runs.flatMap((run) => run.notes))];
  return row({ what: `RSS with ${CONNECTIONS} idle TLS connections`, unit: 'MB', bar: atMost(250), samples, of: runs.length, notes });
}

function cpuRow(rounds, load, { name }) {
  const { pairs } = pairOf(rounds, load, load.connections[0], name, name);
  const samples = pairs.map(({ a }) => a).filter(({ flags }) => flags.length === 0).map((run) => run.cpu_us_per_request);
  return row({ what: `CPU per request, ${load.name}`, unit: 'us', samples, of: pairs.length });
}
