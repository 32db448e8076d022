// A lap of SQLite, as built into the pinned Bun: one table whose primary key is the four subscripts, prepared statements, one
// transaction for all writes of a pass, write-ahead log with `synchronous = normal`, which can lose commits only in a power failure.
import { Database } from 'bun:sqlite';
import { join } from 'node:path';
import { document, each, expect, lap, lastName, name, plan } from '../../inprocess/lap.mjs';

const sqlite = new Database(join(plan.folder, 'sqlite.db'));
sqlite.run('pragma journal_mode = wal');
sqlite.run('pragma synchronous = normal');
sqlite.run('create table node (a text, b text, c integer, d text, value text, primary key (a, b, c, d)) without rowid');
const put = sqlite.prepare('insert or replace into node values (?, ?, ?, ?, ?)');
const find = sqlite.prepare('select value from node where a = ? and b = ? and c = ? and d = ?');
const children = sqlite.prepare('select c from node where a = ? and b = ? order by c');

await lap({
  set: (pass) => sqlite.transaction(() => each((id) => void put.run('Person', 'data', id, 'firstName', name(id, pass))))(),
  get: () => each((id) => expect(find.get('Person', 'data', id, 'firstName').value === lastName(id))),
  walk: () => {
    let count = 0;
    for (const { c } of children.iterate('Person', 'data')) count += c >= 0 ? 1 : 0;
    expect(count === plan.records);
  },
  'set document': (pass) => sqlite.transaction(() => each((id) => void put.run('Doc', 'data', id, 'x', JSON.stringify(document(id, pass)))))(),
  'get document': () => each((id) => expect(JSON.parse(find.get('Doc', 'data', id, 'x').value).id === id)),
});
sqlite.close();
