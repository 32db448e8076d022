import { forebay } from '../forebay.mjs';
import { checkPost } from '../measure.mjs';
import { comparePairs } from '../pairs.mjs';
import { atLeast, ratioRow, row } from '../rows.mjs';
import { DIRECT_POST, PERSON, SEED, mgwebHandler } from './people.mjs';

const WORKERS = 2;

const HELLO = { path: '/mgweb/helloworld', body: '{"hello":"world 123"}', connections: 64 };
const LEAVES = { path: '/mgweb/userx/1', body: '{"key":"1","data":{"firstName":"Rob","lastName":"Tweed"}}', connections: 64 };
const DOCUMENT = { ...LEAVES, path: '/mgweb/user/1' };

const created = (path, status, pattern) => (server) => checkPost(server, path, PERSON, { status, pattern });
const SAVE = { ...DIRECT_POST, path: '/mgweb/save', check: created('/mgweb/save', 200, /^\{"saved":true,"id":3\}$/) };
const DIRECT = { ...DIRECT_POST, check: created(DIRECT_POST.path, 201, /^\{"id":3\}$/) };

/** mg_web's routes of the showcase: the cost of reading and writing the store for a handler. */
export const storeMgweb = {
  name: 'store-mgweb',
  title: `mg_web's routes from ${WORKERS} Node workers, 64 connections`,
  needsForebay: true,
  async run(context) {
    const pool = { runtime: 'node', workers: WORKERS, handler: mgwebHandler };
    const side = (name, load) => forebay(context.binary, name, { store: true, seed: SEED, pool, load });
    const hello = side('Forebay, no store', HELLO);
    const leaves = await comparePairs(context, side('Forebay, two leaves', LEAVES), hello);
    const document = await comparePairs(context, side('Forebay, a document', DOCUMENT), hello);
    const save = await comparePairs(context, side('Forebay, increment and document', SAVE), side('Forebay, direct', DIRECT));
    const clean = save.pairs.filter(({ a }) => a.flags.length === 0);
    return {
      comparisons: [leaves, document, save],
      rows: [
        ratioRow(leaves, 'requests_per_s', { what: 'requests/s, /mgweb/userx/1 : /mgweb/helloworld', bar: atLeast(0.91) }),
        ratioRow(document, 'requests_per_s', { what: 'requests/s, /mgweb/user/1 : /mgweb/helloworld', bar: atLeast(0.85) }),
        ratioRow(save, 'requests_per_s', { what: 'requests/s, POST /mgweb/save : POST to the store', bar: atLeast(0.5) }),
        row({ what: 'p99 of POST /mgweb/save', unit: 'ms', samples: clean.map(({ a }) => a.p99_us / 1e3), of: save.pairs.length }),
        ratioRow(leaves, 'cpu_us_per_request', { what: 'CPU per request, /mgweb/userx/1 : /mgweb/helloworld' }),
        ratioRow(document, 'cpu_us_per_request', { what: 'CPU per request, /mgweb/user/1 : /mgweb/helloworld' }),
      ],
    };
  },
};
