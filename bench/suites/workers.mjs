import { availableParallelism } from 'node:os';
import { forebay } from '../forebay.mjs';
import { comparePairs } from '../pairs.mjs';
import { atLeast, ratioRow } from '../rows.mjs';
import { HELLO } from './bodies.mjs';

/** More workers than cores: QOper8 slows down with each, Forebay must not. */
export const workers = {
  name: 'workers',
  title: '/helloworld, four Node workers a core : one a core',
  needsForebay: true,
  async run(context) {
    const cores = availableParallelism();
    const side = (count) => forebay(context.binary, `Forebay, ${count} Node workers`, { pool: { runtime: 'node', workers: count } });
    const comparison = await comparePairs(context, side(4 * cores), side(cores), HELLO);
    return {
      comparisons: [comparison],
      rows: [
        ratioRow(comparison, 'requests_per_s', { what: `requests/s, ${4 * cores} workers : ${cores} workers`, bar: atLeast(0.9) }),
        ratioRow(comparison, 'cpu_us_per_request', { what: `CPU per request, ${4 * cores} workers : ${cores} workers` }),
      ],
    };
  },
};
