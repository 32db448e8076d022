import { comparePairs } from '../pairs.mjs';
import { bunServe } from '../peers/bun.mjs';
import { nginx } from '../peers/nginx.mjs';
import { ratioRow } from '../rows.mjs';
import { HELLO, LOCAL } from './bodies.mjs';

/** A server compared with itself: how far a ratio deviates from 1 on this machine by chance. */
export const noise = {
  name: 'noise',
  title: 'A : A, the noise floor',
  needsForebay: false,
  async run(context) {
    const nginxTwice = await comparePairs(context, nginx, nginx, LOCAL);
    const bunTwice = await comparePairs(context, bunServe, bunServe, HELLO);
    return {
      comparisons: [nginxTwice, bunTwice],
      rows: [nginxTwice, bunTwice].flatMap((comparison) => [
        ratioRow(comparison, 'requests_per_s', { what: `requests/s, ${comparison.a} : itself` }),
        ratioRow(comparison, 'cpu_us_per_request', { what: `CPU per request, ${comparison.a} : itself` }),
      ]),
    };
  },
};
