// Compares routes of one server: the rungs of a ladder.

import { exactRun } from './exact.mjs';
import { get } from './http.mjs';
import { checkAnswer } from './measure.mjs';
import { stop } from './processes.mjs';

/** How connections are used: kept open, or closed by the server after each answer. */
export const MODES = ['kept', 'closed'];

/**
 * Times every rung, `{name, path, body}`, in `pairs` rounds. A round is one server, started afresh by `side`, and in each mode every rung
 * once, in alternating order (ABBA), so that rungs are compared within one server and within a minute or two. Resolves to the
 * rounds: `runs[mode][name]` is a run of exact.mjs, and `counted[path]` the server's own counts of its responses there, by class.
 */
export async function climb(context, side, rungs, connections) {
  const rounds = [];
  for (let number = 0; number < context.pairs; number += 1) {
    const server = await side.start(context.folder);
    try {
      for (const { path, body } of rungs) await checkAnswer(server, path, body);
      const runs = {};
      for (const mode of MODES) {
        runs[mode] = {};
        for (const rung of number % 2 === 0 ? rungs : rungs.toReversed()) {
          context.progress(`round ${number + 1} of ${context.pairs}, connections ${mode}, ${rung.name}`);
          const { warmup_s, seconds } = context;
          runs[mode][rung.name] = await exactRun(context.binary, server, { ...rung, connections, keepAlive: mode === 'kept', warmup_s, seconds });
        }
      }
      rounds.push({ runs, counted: answered((await get(`${server.adminUrl}/metrics`)).body) });
    } finally {
      await stop(server.process);
    }
  }
  return rounds;
}

/** The number of responses of each route by status class, from a server's metrics. */
export function answered(metrics) {
  const counted = {};
  for (const [, route, kind, count] of metrics.matchAll(/^forebay_requests_total\{route="([^"]*)",class="([^"]*)"\} (\d+)$/gm)) {
    counted[route] ??= {};
    counted[route][kind] = Number(count);
  }
  return counted;
}

/**
 * Totals over all rounds: requests `sent`; those without the right response, `lost`; and `extra`, the difference to the server's own counts
 * of its responses. The check before the runs adds one request per rung.
 */
export function accounts(rounds, rungs) {
  let [sent, lost, extra] = [0, 0, 0];
  for (const { runs, counted } of rounds) {
    for (const { name, route } of rungs) {
      const mine = MODES.map((mode) => runs[mode][name]);
      const asked = mine.reduce((sum, run) => sum + run.sent, 0);
      sent += asked;
      lost += mine.reduce((sum, run) => sum + run.sent - run.right, 0);
      const { '2xx': right = 0, ...others } = counted[route] ?? {};
      extra += Math.abs(right - asked - 1) + Object.values(others).reduce((sum, count) => sum + count, 0);
    }
  }
  return { sent, lost, extra };
}

/** Two rungs in one mode, as a comparison for `ratioRow`. */
export function pairRungs(rounds, mode, a, b) {
  return { a, b, pairs: rounds.map(({ runs }) => ({ a: runs[mode][a], b: runs[mode][b] })) };
}
