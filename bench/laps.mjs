// Compares stores that work inside one process, by laps: see inprocess/lap.mjs.

import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { watchOthers } from './measure.mjs';
import { runToEnd } from './processes.mjs';

/** A contender whose lap is a JavaScript program. `lacking` returns how to install what it needs, or null if it is installed. */
export function lapProgram(name, command, program, lacking = () => null) {
  return {
    name,
    lacking,
    lap: async (plan) => JSON.parse(await runToEnd(name, command, [fileURLToPath(program), JSON.stringify(plan)], { env: { PATH: process.env.PATH } })),
  };
}

/** Forebay's store through its addon, in Node. */
export const forebayInNode = lapProgram('Forebay', process.execPath, new URL('inprocess/forebay.mjs', import.meta.url));

/**
 * Runs a lap of every contender in each of `pairs` rounds, in alternating order (ABBA), each in a new
 * process with new files. A round is a map from a contender's name to `{elsewhere_share, operations}`, where `operations` has for each
 * operation `per_s`, by wall-clock time, and `per_cpu_s`, by the CPU time of all threads.
 */
export async function compareLaps(context, contenders, { records, passes }) {
  const rounds = [];
  for (let number = 0; number < context.pairs; number += 1) {
    const round = {};
    for (const contender of number % 2 === 0 ? contenders : contenders.toReversed()) {
      context.progress(`round ${number + 1} of ${context.pairs}, ${contender.name}`);
      round[contender.name] = await lapOnce(context, contender, { records, passes });
    }
    rounds.push(round);
  }
  return rounds;
}

async function lapOnce(context, contender, amounts) {
  const folder = mkdtempSync(join(context.folder, 'lap-'));
  try {
    const elsewhereShare = watchOthers();
    const results = await contender.lap({ folder, ...amounts });
    const elsewhere_share = elsewhereShare();
    const operations = Object.entries(results).map(([operation, { operations: count, seconds, cpu_seconds }]) => [
      operation,
      { operations: count, seconds, cpu_seconds, per_s: count / seconds, per_cpu_s: count / cpu_seconds },
    ]);
    return { elsewhere_share, operations: Object.fromEntries(operations) };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Two operations as a comparison for `ratioRow`; each is `[contender's name, operation]`. */
export function pairOperations(rounds, a, b) {
  const side = (round, [name, operation]) => {
    const { elsewhere_share, operations } = round[name];
    return { ...operations[operation], elsewhere_share, flags: [] };
  };
  return { a: a.join(' '), b: b.join(' '), pairs: rounds.map((round) => ({ a: side(round, a), b: side(round, b) })) };
}
