// Interleaved comparison of two servers.

import { checkAnswer, timedRun } from './measure.mjs';
import { stop } from './processes.mjs';

/**
 * Times `a` and `b` in `pairs` pairs, ordered a b, b a, a b ... (ABBA), so that a drift of the machine affects both. For every
 * run, the server starts afresh and runs alone: differences between starts are part of the spread, and the other side takes no memory or
 * cache. `load` is `{path, body, connections}`, more in measure.mjs; a side may have its own `load`. Resolves to all runs,
 * flagged ones included.
 */
export async function comparePairs(context, a, b, load) {
  const pairs = [];
  for (let number = 0; number < context.pairs; number += 1) {
    const order = number % 2 === 0 ? ['a', 'b'] : ['b', 'a'];
    const pair = { order: order.join('') };
    for (const side of order) {
      const subject = side === 'a' ? a : b;
      context.progress(`${a.name} : ${b.name}, pair ${number + 1} of ${context.pairs}, ${subject.name}`);
      pair[side] = await runOnce(context, subject, subject.load ?? load);
    }
    pairs.push(pair);
  }
  const [aLoad, bLoad] = [a.load ?? load, b.load ?? load];
  return { a: a.name, b: b.name, paths: { a: aLoad.path, b: bLoad.path }, connections: aLoad.connections, pairs };
}

/** Starts a server, checks its answer, times it, stops it. */
async function runOnce(context, side, load) {
  const server = await side.start(context.folder);
  try {
    await (load.check ? load.check(server) : checkAnswer(server, load.path, load.body));
    return await timedRun(server, { ...load, warmup_s: context.warmup_s, seconds: context.seconds });
  } finally {
    await stop(server.process);
  }
}
