// Records and TQL in the process of a handler; runs under Node and Bun.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Records } from '../dist/records/index.js';
import { freshStore, refuses, run } from './stores.mjs';

const sample = { kind: 'Article', title: 'Sample' };

describe('records', () => {
  it('are made, read, changed and removed by their references', () => {
    const store = freshStore();
    const records = new Records(store);
    const ref = records.create(sample);
    assert.equal(ref, 1);
    assert.deepEqual(records.read(ref), sample);
    assert.equal(records.readText(ref), '{"kind":"Article","title":"Sample"}');
    assert.equal(records.readText(ref, 'Article'), '{"kind":"Article","title":"Sample"}');
    assert.equal(records.readText(ref, 'Entry'), undefined);
    assert.equal(records.kindOf(ref), 'Article');
    assert.deepEqual(store.get('Article', ref), sample);
    assert.equal(records.patch(ref, { title: null, text: 'New' }), true);
    assert.deepEqual(records.read(ref), { kind: 'Article', text: 'New' });
    assert.equal(records.update(ref, { kind: 'Entry', n: 1 }, 'Other'), false);
    assert.equal(records.update(ref, { kind: 'Entry', n: 1 }, 'Article'), true);
    assert.equal(records.kindOf(ref), 'Entry');
    assert.equal(records.delete(ref, 'Article'), false);
    assert.equal(records.delete(ref), true);
    assert.equal(records.delete(ref), false);
    assert.equal(records.read(ref), undefined);
    assert.equal(records.kindOf(ref), undefined);
    assert.equal(records.create({}), 2);
    assert.equal(records.read(2n ** 60n), undefined);
  });

  it('are listed page by page', () => {
    const records = new Records(freshStore());
    for (let n = 0; n < 5; n++) records.create({ kind: 'Article', n });
    assert.deepEqual(records.list('Article'), [1, 2, 3, 4, 5]);
    assert.deepEqual(records.list('Article', { size: 2, page: 1 }), [3, 4]);
    assert.deepEqual(records.list('Article', { after: 4, full: true }), [{ id: 5, data: { kind: 'Article', n: 4 } }]);
    assert.deepEqual(records.list('Nothing'), []);
  });

  it('are refused with a code that says why', () => {
    const records = new Records(freshStore());
    refuses('not_an_object', () => records.create([]));
    refuses('kind', () => records.create({ kind: 7 }));
    refuses('kind', () => records.create({ kind: 'no kind' }));
    refuses('not_json', () => records.create({ n: NaN }));
    refuses('no_record', () => records.read(-1));
    refuses('no_record', () => records.read(1.5));
    refuses('kind', () => records.list('%Ref'));
  });
});

describe('tql', () => {
  it('answers statements in both encodings', () => {
    const records = new Records(freshStore());
    assert.deepEqual(records.tql({ insert: sample }), { code: 0, ref: 1 });
    assert.deepEqual(records.tql({ where: ['EQ', 'title', "'Sample"], select: { id: '$ref', data: '$' } }), {
      code: 0,
      results: [{ id: 1, data: sample }],
    });
    assert.deepEqual(records.tql('RID "r" WHERE EQ(title "Sample") SELECT title'), { code: 0, results: ['Sample'], rid: 'r' });
    assert.deepEqual(records.tql({ where: 1, update: { ...sample, n: 1 } }), { code: 0, updated: [1] });
    assert.deepEqual(records.tql({ where: 1, delete: null }), { code: 0, deleted: [1] });
    const long = 'x'.repeat(200_000);
    assert.deepEqual(records.tql({ insert: { long } }), { code: 0, ref: 2 });
    assert.equal(records.tql('WHERE 2 SELECT long').results[0], long);
  });

  it('is part of the transaction that is open', () => {
    const store = freshStore();
    const records = new Records(store);
    assert.throws(() =>
      store.transaction(() => {
        const ref = records.create(sample);
        assert.deepEqual(records.tql('WHERE EQ(kind "Article") SELECT $ref').results, [ref]);
        records.tql({ where: ref, update: { kind: 'Article', n: 1 } });
        assert.deepEqual(records.read(ref), { kind: 'Article', n: 1 });
        throw new Error('never mind');
      }),
    );
    assert.deepEqual(records.tql('SELECT $ref').results, []);
    assert.equal(records.create(sample), 1);
    store.snapshot(() => {
      assert.deepEqual(records.tql('SELECT $ref').results, [1]);
      refuses('in_snapshot', () => records.create(sample));
    });
  });

  it('changes all or nothing', () => {
    const store = freshStore();
    const records = new Records(store);
    store.defineIndex({ name: 'n', records: store.node('Article'), fields: ['n'], unique: true });
    for (let n = 0; n < 3; n++) records.create({ kind: 'Article', n });
    refuses('not_unique', () => records.tql('WHERE LT(n 2) UPDATE {"kind":"Article","n":9}'));
    assert.deepEqual(records.tql('SELECT n SORT n').results, [0, 1, 2]);
    refuses('broken', () =>
      store.transaction(() => {
        refuses('not_unique', () => records.tql('WHERE LT(n 2) UPDATE {"kind":"Article","n":9}'));
        records.create(sample);
      }),
    );
    assert.deepEqual(records.tql('SELECT n SORT n').results, [0, 1, 2]);
  });

  it('leaves alone what nodes are named by, before and after', () => {
    const store = freshStore();
    const records = new Records(store);
    store.set('Person', 'ada', 1);
    records.create(sample);
    assert.equal(store.get('Person', 'ada'), 1);
    const node = store.node('Person', 'ada');
    assert.equal(node.get(), 1);
    records.tql({ where: ['HAS', 'title'], select: '$ref' });
    assert.equal(node.get(), 1);
  });

  it('says where a statement is wrong', () => {
    const records = new Records(freshStore());
    assert.throws(() => records.tql('WHERE EQ(a'), { code: 'tql_syntax', message: /expected `\)`, found the end \(line 1, column 11\)/ });
    assert.throws(() => records.tql({ where: ['GT', 'a', "'x"] }), { code: 'tql_meaning', message: /line 1, column/ });
    records.create(sample);
    refuses('already_exists', () => records.tql({ where: ['HAS', 'title'], insert: sample }));
    refuses('no_record', () => records.tql({ where: 9, update: sample }));
  });

  it('follows the settings of the server', () => {
    const store = freshStore();
    const { path } = store;
    store.close();
    const source = `
      import { open } from './store/index.js';
      import { Records } from './records/index.js';
      const records = new Records(open(${JSON.stringify(path)}));
      records.create({ meta: { kind: 'Article' }, at: '2020-01-01T00:00:00.5Z' });
      records.create({});
      console.log(JSON.stringify([records.kindOf(1), records.kindOf(2), records.tql('WHERE 1 SELECT at').results]));`;
    const printed = run(source, { FOREBAY_RECORDS: '3 1 1 - XSD0 0 1000 10 4096 1000 Thing meta\u001fkind' });
    assert.deepEqual(JSON.parse(printed), ['Article', 'Thing', ['2020-01-01T00:00:00Z']]);
  });
});
