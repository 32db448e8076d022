// A lap of Forebay's store in Node: `relaxed` commits, and outside of transactions each `get` in its own snapshot.
import { join } from 'node:path';
import { open } from '../../sdk/node/dist/store/index.js';
import { document, each, expect, lap, lastName, name, plan } from './lap.mjs';

const store = open(join(plan.folder, 'forebay'), { durability: 'relaxed' });
const people = store.node('Person', 'data');

await lap({
  set: (pass) => store.transaction(() => each((id) => store.set('Person', 'data', id, 'firstName', name(id, pass)))),
  get: () => each((id) => expect(store.get('Person', 'data', id, 'firstName') === lastName(id))),
  'get from a node': () => each((id) => expect(people.get(id, 'firstName') === lastName(id))),
  walk: () => {
    let count = 0;
    for (const key of people.keys()) count += key.length > 0 ? 1 : 0;
    expect(count === plan.records);
  },
  'set document': (pass) => store.transaction(() => each((id) => store.set('Doc', 'data', id, 'x', document(id, pass)))),
  'get document': () => each((id) => expect(store.get('Doc', 'data', id, 'x').id === id)),
});
store.close();
