// What an operation of the store costs in one process, beside lmdb-js with the same keys and values.
//
//   node bench/store.mjs [--records 100000] [--rounds 5] [--only PART]
//
// Keys are four subscripts: ('Person', 'data', id, 'firstName'), in both. lmdb-js runs as it comes (MessagePack values, durable in
// groups); ours with `relaxed` commits. Rounds of both take turns; printed are the median and the spread of the rounds.
// Needs `npm ci --prefix ../../bench/peers` for lmdb-js; without it only ours runs.
import { mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { open } from '../dist/store/index.js';

const { values: options } = parseArgs({
  options: {
    records: { type: 'string', default: '100000' },
    rounds: { type: 'string', default: '5' },
    only: { type: 'string', default: '' },
  },
});
const records = Number(options.records);
const folder = mkdtempSync(join(tmpdir(), 'forebay-bench-'));
const store = open(join(folder, 'ours'), { durability: 'relaxed' });
const lmdb = openLmdb();
const document = (id) => ({ firstName: 'Ada', lastName: 'Lovelace', city: 'London', born: 1815, id });

function openLmdb() {
  try {
    const require = createRequire(new URL('../../../bench/peers/package.json', import.meta.url));
    return require('lmdb').open({ path: join(folder, 'theirs') });
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    process.stderr.write('lmdb-js is not installed: npm ci --prefix bench/peers\n');
    return null;
  }
}

/** Visits all records in an order that is not theirs. */
function each(visit) {
  for (let index = 0, id = 0; index < records; index++, id = (id + 40_503) % records) visit(id);
}

function expect(condition) {
  if (!condition) throw new Error('a wrong answer');
}

const people = store.node('Person', 'data');
const parts = [
  ['set in one transaction', {
    forebay: () => store.transaction(() => each((id) => store.set('Person', 'data', id, 'firstName', `Ada${id}`))),
    'lmdb-js': async () => {
      each((id) => void lmdb.put(['Person', 'data', id, 'firstName'], `Ada${id}`));
      await lmdb.committed;
    },
    'lmdb-js transactionSync': () => lmdb.transactionSync(() => each((id) => void lmdb.put(['Person', 'data', id, 'firstName'], `Ada${id}`))),
  }],
  ['get', {
    forebay: () => each((id) => expect(store.get('Person', 'data', id, 'firstName') === `Ada${id}`)),
    'forebay, from a node': () => each((id) => expect(people.get(id, 'firstName') === `Ada${id}`)),
    'lmdb-js': () => each((id) => expect(lmdb.get(['Person', 'data', id, 'firstName']) === `Ada${id}`)),
  }],
  ['set a document', {
    forebay: () => store.transaction(() => each((id) => store.set('Doc', 'data', id, 'x', document(id)))),
    'lmdb-js': async () => {
      each((id) => void lmdb.put(['Doc', 'data', id, 'x'], document(id)));
      await lmdb.committed;
    },
  }],
  ['get a document', {
    forebay: () => each((id) => expect(store.get('Doc', 'data', id, 'x').id === id)),
    'lmdb-js': () => each((id) => expect(lmdb.get(['Doc', 'data', id, 'x']).id === id)),
  }],
  ['get a member of a document', {
    forebay: () => each((id) => expect(store.get('Doc', 'data', id, 'x', 'id') === id)),
  }],
  ['iterate', {
    forebay: () => {
      let count = 0;
      for (const key of people.keys()) count += key.length > 0 ? 1 : 0;
      expect(count === records);
    },
    'lmdb-js': () => {
      let count = 0;
      for (const key of lmdb.getKeys({ start: ['Person', 'data'], end: ['Person', 'datb'] })) count += key.length > 0 ? 1 : 0;
      expect(count === records);
    },
  }],
];

for (const [name, contenders] of parts) {
  if (!name.startsWith(options.only) && !name.startsWith('set')) continue;
  const rates = new Map();
  for (let round = 0; round <= Number(options.rounds); round++) {
    for (const [contender, run] of Object.entries(contenders)) {
      if (lmdb === null && contender.startsWith('lmdb')) continue;
      const start = performance.now();
      await run();
      const rate = (records / (performance.now() - start)) * 1000;
      // The first round warms up.
      if (round > 0) rates.set(contender, [...(rates.get(contender) ?? []), rate]);
    }
  }
  for (const [contender, found] of rates) {
    found.sort((one, other) => one - other);
    const shown = [found[found.length >> 1], found[0], found.at(-1)].map((rate) => Math.round(rate).toLocaleString('en'));
    console.log(`${name.padEnd(28)}${contender.padEnd(26)}${shown[0].padStart(12)}/s   ${shown[1]} to ${shown[2]}`);
  }
}
store.close();
await lmdb?.close();
rmSync(folder, { recursive: true });
