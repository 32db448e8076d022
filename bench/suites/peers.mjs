import { availableParallelism } from 'node:os';
import { comparePairs } from '../pairs.mjs';
import { bunServe } from '../peers/bun.mjs';
import { fastify } from '../peers/fastify.mjs';
import { nginx } from '../peers/nginx.mjs';
import { fastifyQoper8 } from '../peers/qoper8.mjs';
import { ratioRow } from '../rows.mjs';
import { HELLO, LOCAL } from './bodies.mjs';

/** The peers among themselves, without Forebay: shows whether this machine ranks them as others do. */
export const peers = {
  name: 'peers',
  title: 'the peers beside each other',
  needsForebay: false,
  async run(context) {
    const comparisons = [
      await comparePairs(context, bunServe, nginx, LOCAL),
      await comparePairs(context, bunServe, fastify, HELLO),
      await comparePairs(context, fastify, fastifyQoper8(1), HELLO),
      await comparePairs(context, fastifyQoper8(availableParallelism()), fastifyQoper8(1), HELLO),
    ];
    return {
      comparisons,
      rows: comparisons.flatMap((comparison) => {
        const what = `${comparison.a} : ${comparison.b}, ${comparison.paths.a}`;
        return [
          ratioRow(comparison, 'requests_per_s', { what: `requests/s, ${what}` }),
          ratioRow(comparison, 'cpu_us_per_request', { what: `CPU per request, ${what}` }),
        ];
      }),
    };
  },
};
