import { forebay } from '../forebay.mjs';
import { comparePairs } from '../pairs.mjs';
import { bunServe } from '../peers/bun.mjs';
import { atLeast, ratioRow } from '../rows.mjs';
import { HELLO } from './bodies.mjs';

/** One Bun worker behind Forebay, compared with Bun.serve answering in its own process. */
export const poolBun = {
  name: 'pool-bun',
  title: '/helloworld from one Bun worker, 64 connections',
  needsForebay: true,
  async run(context) {
    const subject = forebay(context.binary, 'Forebay, 1 Bun worker', { pool: { runtime: 'bun', workers: 1 } });
    const comparison = await comparePairs(context, subject, bunServe, HELLO);
    return {
      comparisons: [comparison],
      rows: [
        ratioRow(comparison, 'requests_per_s', { what: 'requests/s, Forebay : Bun.serve', bar: atLeast(0.95) }),
        ratioRow(comparison, 'cpu_us_per_request', { what: 'CPU per request, Forebay : Bun.serve' }),
      ],
    };
  },
};
