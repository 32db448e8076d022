// A lap of lmdb-js with its defaults: MessagePack values, ordered-binary keys, writes in batches on a separate thread, one read transaction
// for
// all reads of a turn of the event loop.
import { join } from 'node:path';
import { open } from 'lmdb';
import { document, each, expect, lap, lastName, name, plan } from '../../inprocess/lap.mjs';

const lmdb = open({ path: join(plan.folder, 'lmdb') });

await lap({
  set: async (pass) => {
    each((id) => void lmdb.put(['Person', 'data', id, 'firstName'], name(id, pass)));
    await lmdb.committed;
  },
  'set in transactionSync': (pass) =>
    lmdb.transactionSync(() => each((id) => void lmdb.put(['Person', 'data', id, 'firstName'], name(id, pass)))),
  get: () => each((id) => expect(lmdb.get(['Person', 'data', id, 'firstName']) === lastName(id))),
  walk: () => {
    let count = 0;
    for (const key of lmdb.getKeys({ start: ['Person', 'data'], end: ['Person', 'datb'] })) count += key.length > 0 ? 1 : 0;
    expect(count === plan.records);
  },
  'set document': async (pass) => {
    each((id) => void lmdb.put(['Doc', 'data', id, 'x'], document(id, pass)));
    await lmdb.committed;
  },
  'get document': () => each((id) => expect(lmdb.get(['Doc', 'data', id, 'x']).id === id)),
});
await lmdb.close();
