import { forebay } from '../forebay.mjs';
import { comparePairs } from '../pairs.mjs';
import { atMost, ratioRow } from '../rows.mjs';
import { LOCAL } from './bodies.mjs';
import { RECORD, SEED } from './people.mjs';

const CANNED = { ...RECORD, path: '/record' };

/** A record directly from the store, compared with bodies from memory in the same server. */
export const storeGet = {
  name: 'store-get',
  title: `GET of a record of ${RECORD.body.length} bytes from the store : from memory, 64 connections`,
  needsForebay: true,
  async run(context) {
    const side = (name, load) => forebay(context.binary, name, { store: true, seed: SEED, canned: CANNED, load });
    const stored = side('Forebay, store', RECORD);
    const local = await comparePairs(context, stored, side('Forebay, respond', LOCAL));
    const same = await comparePairs(context, stored, side('Forebay, respond', CANNED));
    return {
      comparisons: [local, same],
      rows: [
        ratioRow(local, 'cpu_us_per_request', { what: `CPU per request, store : /local with ${LOCAL.body.length} bytes`, bar: atMost(1.15) }),
        ratioRow(same, 'cpu_us_per_request', { what: 'CPU per request, store : the same 200 bytes from memory' }),
        ratioRow(local, 'requests_per_s', { what: 'requests/s, store : /local' }),
      ],
    };
  },
};
