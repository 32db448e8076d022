import { forebay } from '../forebay.mjs';
import { checkPost } from '../measure.mjs';
import { comparePairs } from '../pairs.mjs';
import { postgresInsert } from '../peers/postgres.mjs';
import { redisSet } from '../peers/redis.mjs';
import { atLeast, ratioRow, row } from '../rows.mjs';
import { DIRECT_POST, PERSON } from './people.mjs';
import { present } from './present.mjs';

/** Writes that are on disk before the response, from 64 clients. */
export const storePost = {
  name: 'store-post',
  title: `POST of ${PERSON.length} bytes of JSON to the store, on the disk before the answer, 64 connections`,
  needsForebay: true,
  async run(context) {
    const load = { ...DIRECT_POST, check: (server) => checkPost(server, DIRECT_POST.path, PERSON, { status: 201, pattern: /^\{"id":\d+\}$/ }) };
    const subject = forebay(context.binary, 'Forebay POST', { store: true, load });
    const peers = [
      { peer: postgresInsert(PERSON), bar: atLeast(1.5) },
      { peer: redisSet('always', PERSON.length), bar: atLeast(0.6), notes: ['goal 1.0'] },
      { peer: redisSet('everysec', PERSON.length) },
    ];
    const { there, skipped } = present(peers.map(({ peer }) => peer));
    const comparisons = [];
    const rows = [];
    for (const { peer, bar, notes } of peers.filter(({ peer }) => there.includes(peer))) {
      const comparison = await comparePairs(context, subject, peer);
      comparisons.push(comparison);
      rows.push(ratioRow(comparison, 'requests_per_s', { what: `requests/s, POST : ${peer.name}`, bar, notes }));
    }
    const own = comparisons.flatMap(({ pairs }) => pairs.map(({ a }) => a));
    const clean = own.filter(({ flags }) => flags.length === 0);
    rows.push(row({ what: 'p99 of POST', unit: 'ms', samples: clean.map(({ p99_us }) => p99_us / 1e3), of: own.length }));
    return { comparisons, skipped, rows };
  },
};
