// Compares several servers under the same loads, in rounds.

import { get } from './http.mjs';
import { timedRun } from './measure.mjs';
import { stop } from './processes.mjs';

/**
 * Times every contender, `{name, start, paths}`, under every load for which it has a path, `{name, answers}`, with each number of
 * connections, in `context.pairs` rounds. A load may have a generator and numbers of connections of its own, `drive` (see measure.mjs) and
 * `connections`. In a round, each contender starts once; the order is reversed from round to round, so that a
 * drift of the machine affects all equally. Before it is timed, each path must answer with 200 and a body that matches the load's pattern
 * `answers`. `database` is the main process of the database that all use; its CPU time is reported separately. Resolves to the rounds:
 * `round[contender][label(load, connections)]` is a run of measure.mjs.
 */
export async function contest(context, contenders, loads, connections, database) {
  const rounds = [];
  for (let number = 0; number < context.pairs; number += 1) {
    const round = {};
    for (const contender of number % 2 === 0 ? contenders : contenders.toReversed()) {
      round[contender.name] = await turnOf(context, contender, loads, connections, database, number);
    }
    rounds.push(round);
  }
  return rounds;
}

/** The label of a load with a number of connections. */
export const label = ({ name }, connections) => `${name}, ${connections} connections`;

/** Two contenders under the same load, as a comparison for `ratioRow`. */
export function pairOf(rounds, load, connections, a, b) {
  const key = label(load, connections);
  return { a, b, pairs: rounds.map((round) => ({ a: round[a][key], b: round[b][key] })) };
}

async function turnOf(context, { name, start, paths }, loads, connections, database, number) {
  const runs = {};
  const server = await start(context.folder);
  try {
    for (const load of loads.filter((load) => paths[load.name] !== undefined)) {
      const path = paths[load.name];
      const answer = await get(server.url + path);
      if (answer.status !== 200 || !load.answers.test(answer.body)) {
        throw server.process.failure(`answered ${path} with ${answer.status} ${answer.body.slice(0, 300)}, not with 200 ${load.answers}`);
      }
      for (const count of load.connections ?? connections) {
        context.progress(`round ${number + 1} of ${context.pairs}, ${name}, ${label(load, count)}`);
        const { warmup_s, seconds } = context;
        runs[label(load, count)] = await timedRun({ ...server, database }, { path, connections: count, warmup_s, seconds, drive: load.drive });
      }
    }
  } finally {
    await stop(server.process);
  }
  return runs;
}
