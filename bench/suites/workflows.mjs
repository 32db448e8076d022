import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { runAb } from '../ab.mjs';
import { forebay, launchForebay, prepare } from '../forebay.mjs';
import { send } from '../http.mjs';
import { checkPost, timedRun } from '../measure.mjs';
import { runToEnd, stop } from '../processes.mjs';
import { atLeast, atMost, row } from '../rows.mjs';

const EXAMPLE = fileURLToPath(new URL('../../examples/workflows', import.meta.url));
const SCENES = '/execute/internal/workflow';
const MORE = `[workflow]\npath = "${EXAMPLE}/workflows"\n\n[[route]]\npath = "${SCENES}"\nworkflow = {}\n\n[[route]]\npath = "/workflow/*"\nworkflow = {}`;
const BENCHMARK = readFileSync(join(EXAMPLE, 'benchmark1.json'), 'utf8');

/**
 * Rengine's benchmark with its keys and its log, without the keys, and without both; with a number of requests that takes a second or a
 * few.
 */
const VARIANTS = [
  { name: 'benchmark1', suffix: '', requests: 2000 },
  { name: 'benchmark1 without RSA', suffix: '_without_rsa', requests: 16_000 },
  { name: 'benchmark1 without RSA and log', suffix: '_without_rsa_and_log', requests: 16_000 },
];
const AT_A_TIME = [200, 400, 1000, 2000];
/** ab opens a connection for each request, as in the published benchmark, or keeps connections open. */
const MODES = [{ name: 'closed', keepAlive: false }, { name: 'kept', keepAlive: true }];

const CONNECTIONS = 64;
const START_MAX_MS = 15_000;
const PROMOTION = { name: 'promotion of eight rules', path: '/workflow/promotion', post: '{"userId":"u1","date":"2026-11-20","recharge":150}', pattern: /"points":20/ };
const ONE_RULE = { name: 'one rule', path: '/workflow/hello', post: '{"name":"Ada"}', pattern: /Hello, Ada!/ };
const SCRIPT = { name: 'script', path: '/helloworld' };

/** A Python script that prints how many 1024-bit RSA key pairs OpenSSL generates per second on one core. */
const OPENSSL = `
import ctypes, ctypes.util, time
crypto = ctypes.CDLL(ctypes.util.find_library('crypto'))
crypto.EVP_PKEY_Q_keygen.restype = ctypes.c_void_p
crypto.EVP_PKEY_free.argtypes = [ctypes.c_void_p]
made, begun = 0, time.process_time()
while time.process_time() - begun < 2:
    key = crypto.EVP_PKEY_Q_keygen(None, None, b'RSA', ctypes.c_size_t(1024))
    assert key
    crypto.EVP_PKEY_free(key)
    made += 1
print(made / (time.process_time() - begun))
`;

const opensslKeys = async () => Number(await runToEnd('OpenSSL', 'python3', ['-c', OPENSSL]));

/** Milliseconds from the start of the process to the first response of a workflow. */
async function startTime(context) {
  const prepared = await prepare(context.folder, { more: MORE });
  const begun = performance.now();
  const process_ = launchForebay(context.binary, prepared);
  try {
    for (;;) {
      try {
        const answer = await send('POST', `http://127.0.0.1:${prepared.port}${ONE_RULE.path}`, ONE_RULE.post);
        if (answer.status === 200) return performance.now() - begun;
      } catch (error) {
        if (process_.end || performance.now() - begun > START_MAX_MS) throw process_.failure(`did not answer: ${error.message}`);
      }
      await delay(1);
    }
  } finally {
    await stop(process_);
  }
}

const label = ({ name }, connections, mode) => `${name}, ${connections} at a time, ${mode.name}`;

/** Rule graphs: Rengine's own benchmark, and a comparison with a script. */
export const workflows = {
  name: 'workflows',
  title: `graphs of rules: Rengine's benchmark by ab, and others with ${CONNECTIONS} connections`,
  needsForebay: true,
  async run(context) {
    const { warmup_s, seconds } = context;
    const runs = {};
    const note = (name, run) => (runs[name] ??= []).push(run);
    const side = forebay(context.binary, 'Forebay', { script: true, more: MORE, connections_max: 4000 });
    const [keys, starts] = [[], []];
    for (let number = 0; number < context.pairs; number += 1) {
      keys.push(await opensslKeys());
      starts.push(await startTime(context));
      const server = await side.start(context.folder);
      try {
        for (const variant of VARIANTS) {
          const file = join(context.folder, 'benchmark1.json');
          writeFileSync(file, BENCHMARK.replace('test_script_sdk_example', `test_script_sdk_example${variant.suffix}`));
          for (const connections of AT_A_TIME) {
            for (const mode of MODES) {
              const name = label(variant, connections, mode);
              context.progress(`round ${number + 1} of ${context.pairs}, ${name}`);
              note(name, await runAb(server.url + SCENES, { requests: variant.requests, connections, file, keepAlive: mode.keepAlive }));
            }
          }
        }
        for (const load of [PROMOTION, ONE_RULE, SCRIPT]) {
          context.progress(`round ${number + 1} of ${context.pairs}, ${load.name}`);
          if (load.post) await checkPost(server, load.path, load.post, { status: 200, pattern: load.pattern });
          note(load.name, await timedRun(server, { ...load, connections: CONNECTIONS, warmup_s, seconds }));
        }
      } finally {
        await stop(server.process);
      }
    }
    return { rows: [...rowsOf(runs, keys), row({ what: 'start to first answer', unit: 'ms', bar: atMost(100), samples: starts })] };
  },
};

function rowsOf(runs, keys) {
  const rates = (name) => runs[name].map(({ requests_per_s }) => requests_per_s);
  const lost = Object.values(runs).flat().map(({ errors }) => Object.values(errors).reduce((sum, count) => sum + count, 0));
  const benchmarks = VARIANTS.flatMap((variant) =>
    AT_A_TIME.flatMap((connections) =>
      MODES.map((mode) => {
        const name = label(variant, connections, mode);
        const bar = variant.suffix === '_without_rsa' ? atLeast(4000) : null;
        return row({ what: `requests/s, ${name}`, bar, samples: rates(name) });
      }),
    ),
  );
  const [full] = VARIANTS;
  const beside = AT_A_TIME.map((connections) => {
    const name = label(full, connections, MODES[0]);
    const samples = rates(name).map((rate, at) => rate / (keys[at] * availableParallelism()));
    return row({ what: `requests/s, ${name} : pairs of keys that OpenSSL makes on all cores`, bar: atLeast(0.8), samples });
  });
  return [
    ...benchmarks,
    ...beside,
    row({ what: `requests/s, ${PROMOTION.name}`, bar: atLeast(14_000), samples: rates(PROMOTION.name) }),
    row({ what: `CPU per request, ${PROMOTION.name}`, unit: 'us', samples: runs[PROMOTION.name].map(({ cpu_us_per_request }) => cpu_us_per_request) }),
    row({ what: 'requests/s, one rule : script', bar: atLeast(0.3), samples: rates(ONE_RULE.name).map((rate, at) => rate / rates(SCRIPT.name)[at]) }),
    row({ what: 'requests that failed', bar: atMost(0), samples: [lost.reduce((sum, count) => sum + count, 0)] }),
  ];
}
