import { forebay } from '../forebay.mjs';
import { comparePairs } from '../pairs.mjs';
import { nginx } from '../peers/nginx.mjs';
import { atMost, ratioRow } from '../rows.mjs';
import { LOCAL } from './bodies.mjs';

/** A canned body from memory, compared with nginx doing the same. */
export const local = {
  name: 'local',
  title: '/local, Forebay : nginx return 200',
  needsForebay: true,
  async run(context) {
    const comparison = await comparePairs(context, forebay(context.binary, 'Forebay /local'), nginx, LOCAL);
    return {
      comparisons: [comparison],
      rows: [
        ratioRow(comparison, 'cpu_us_per_request', { what: 'CPU per request, Forebay : nginx', bar: atMost(0.9) }),
        ratioRow(comparison, 'requests_per_s', { what: 'requests/s, Forebay : nginx' }),
      ],
    };
  },
};
