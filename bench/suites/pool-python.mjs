import { availableParallelism } from 'node:os';
import { forebay } from '../forebay.mjs';
import { comparePairs } from '../pairs.mjs';
import { application, granian, gunicorn, python } from '../peers/python.mjs';
import { atLeast, ratioRow } from '../rows.mjs';
import { present } from './present.mjs';

// Flask ends JSON with a line feed.
const FLASK_HELLO = { path: '/helloworld', body: '{"hello":"world"}\n', connections: 64 };

/** A Flask application in a Python pool, compared with servers made for such applications, with the same number of processes. */
export const poolPython = {
  name: 'pool-python',
  title: '/helloworld of a Flask application, one process and one per core, 64 connections',
  needsForebay: true,
  async run(context) {
    const comparisons = [];
    const rows = [];
    const missing = [];
    for (const workers of new Set([1, availableParallelism()])) {
      const pool = { runtime: 'python', workers, handler: application, python };
      const subject = forebay(context.binary, `Forebay, ${workers} Python`, { pool });
      const { there, skipped } = present([gunicorn(workers), granian(workers)]);
      missing.push(...skipped);
      for (const peer of there) {
        const comparison = await comparePairs(context, subject, peer, FLASK_HELLO);
        const bar = atLeast(peer.name.startsWith('gunicorn') ? 1.5 : 0.85);
        comparisons.push(comparison);
        rows.push(
          ratioRow(comparison, 'requests_per_s', { what: `requests/s, Forebay : ${peer.name}`, bar }),
          ratioRow(comparison, 'cpu_us_per_request', { what: `CPU per request, Forebay : ${peer.name}` }),
        );
      }
    }
    return { comparisons, rows, skipped: [...new Set(missing)] };
  },
};
