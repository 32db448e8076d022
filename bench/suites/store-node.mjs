import { compareLaps, forebayInNode, pairOperations } from '../laps.mjs';
import { gtm } from '../peers/gtm.mjs';
import { lmdb } from '../peers/lmdb.mjs';
import { redisInLap } from '../peers/redis.mjs';
import { sqlite } from '../peers/sqlite.mjs';
import { atLeast, ratioRow } from '../rows.mjs';
import { present } from './present.mjs';

const PASSES = 3;

/** Targets: an operation of ours, the one it is compared with, and the minimum ratio of the rates. */
const BARS = [
  ['get', 'lmdb-js', 'get', 1.2],
  ['set', 'lmdb-js', 'set', 1],
  ['set document', 'Forebay', 'set', 0.25],
  ['get document', 'Forebay', 'get', 0.25],
];

/** Further comparisons, without a target. */
const BESIDE = [
  ['get from a node', 'lmdb-js', 'get'],
  ['set', 'lmdb-js', 'set in transactionSync'],
  ['set document', 'lmdb-js', 'set document'],
  ['get document', 'lmdb-js', 'get document'],
  ['walk', 'lmdb-js', 'walk'],
  ...['SQLite in Bun', 'GT.M'].flatMap((peer) => ['set', 'get', 'set document', 'get document', 'walk'].map((operation) => [operation, peer, operation])),
  ['set', 'Redis, one connection', 'set'],
  ['get', 'Redis, one connection', 'get'],
];

/** The cost of store operations in one Node process, compared with other stores with the same keys and values. */
export const storeNode = {
  name: 'store-node',
  title: "the store in one Node process; keys ('Person', 'data', ID, 'firstName'), documents of five fields",
  needsForebay: true,
  async run(context) {
    const { there, skipped } = present([lmdb, sqlite, gtm, redisInLap]);
    const rounds = await compareLaps(context, [forebayInNode, ...there], { records: context.records, passes: PASSES });
    const known = (name) => name in rounds[0];
    const compare = (operation, name, other) => pairOperations(rounds, ['Forebay', operation], [name, other]);
    const judged = BARS.filter(([, name]) => known(name)).flatMap(([operation, name, other, limit]) => {
      const what = `Forebay ${operation} : ${name} ${other}`;
      const comparison = compare(operation, name, other);
      const byCpu = { what: `${what}, by CPU time of all threads` };
      return [
        ratioRow(comparison, 'per_s', { what, bar: atLeast(limit) }),
        ...(name === 'Forebay' ? [] : [ratioRow(comparison, 'per_cpu_s', byCpu)]),
      ];
    });
    const shown = BESIDE.filter(([, name]) => known(name)).map(([operation, name, other]) =>
      ratioRow(compare(operation, name, other), 'per_s', { what: `Forebay ${operation} : ${name} ${other}` }),
    );
    return { rounds, skipped, rows: [...judged, ...shown] };
  },
};
