// Programs written for mg-dbx-napi, on the store; runs under Node and Bun.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { mclass, mcursor, mglobal, server } from '../dist/mgdbx/index.js';
import { freshFolder, freshStore, run, start, withoutStore } from './stores.mjs';

const store = freshStore();
const db = new server();
assert.equal(db.open({ type: 'Forebay', store }), '1');
let count = 0;
/** A global that no other test uses. */
const fresh = (...keys) => new mglobal(db, `G${++count}`, ...keys);
const nameOf = () => `G${count}`;

describe('a connection of mg-dbx', () => {
  it('opens a folder, or the store of the server', () => {
    const folder = freshFolder();
    const printed = run(
      `import { server } from './mgdbx/index.js';
      const own = new server();
      own.open({ type: 'Forebay', path: ${JSON.stringify(folder)} });
      own.set('A', 1, 'x');
      own.close();
      const db = new server();
      console.log(db.get('A', 1) + '|' + db.geterrormessage());
      console.log(db.open({ type: 'YottaDB', path: '/usr/local/lib/yottadb/r138', env_vars: {} }), db.get('A', 1));
      console.log(db.namespace() === ${JSON.stringify(folder)}, db.close(), db.get('A', 1), db.geterrormessage());`,
      { FOREBAY_STORE: folder },
    );
    assert.equal(printed, '|the database is not open\n1 x\ntrue   the database is not open\n');
    const none = new server();
    assert.equal(withoutStore(() => none.open({ type: 'IRIS' })), '');
    assert.match(none.geterrormessage(), /given no store/);
  });

  it('answers what programs ask about it', () => {
    assert.match(db.version(), /^Forebay \d/);
    assert.equal(db.dbversion(), db.version());
    assert.equal(db.namespace(), store.path);
    assert.equal(db.namespace('OTHER'), store.path);
    assert.deepEqual([db.charset(), db.charset('binary'), db.charset('utf-99'), db.setcharset('utf-8')], ['utf-8', 'binary', 'binary', 'utf-8']);
    assert.deepEqual([db.settimeout(30), db.settimeout(1)], ['30', '30']);
    assert.deepEqual([db.setloglevel('e'), db.benchmark('x'), db.benchmarkex('x')], ['', 'x', 'x']);
    const before = performance.now();
    db.sleep(20);
    assert.ok(performance.now() - before >= 19);
  });

  it('says why something failed, and throws nothing', () => {
    assert.equal(db.set('A', 'x'.repeat(3000), 1), '');
    assert.match(db.geterrormessage(), /at most 1900/);
    assert.equal(db.get('A'), '');
    assert.equal(db.geterrormessage(), '');
    for (const action of [() => db.set('A', '', 'x'), () => db.set('A', 1, null), () => db.set('A', 1, {}), () => db.get('A', undefined), () => db.get(7), () => db.set('A', 1, '\ud800'), () => fresh().merge(1)]) {
      assert.equal(action(), '');
      assert.notEqual(db.geterrormessage(), '');
    }
    for (const [name, found] of [[7, 'number'], [null, 'null'], [undefined, 'undefined'], [{}, 'object']]) {
      for (const action of [() => db.get(name), () => db.set(name, 1), () => db.defined(name), () => db.next(name, '')]) {
        assert.deepEqual([action(), db.geterrormessage()], ['', `the name of a global is a string, not ${found}`]);
      }
      assert.throws(() => new mglobal(db, name), { code: 'key' });
      assert.throws(() => new mcursor(db, { global: name ?? 7 }), { code: 'key' });
    }
    assert.deepEqual([db.function('add^math', 1), db.classmethod('%Library.Date', 'x', 1)], ['', '']);
    assert.match(db.geterrormessage(), /no classes of InterSystems/);
    const person = new mclass(db, 'User.Person');
    for (const member of ['classmethod', 'method', 'getproperty', 'setproperty', 'closeinstance', 'reset']) assert.equal(person[member]('x'), '');
    assert.throws(() => db.sql({ sql: 'select 1' }), { code: 'unsupported' });
    assert.throws(() => new mcursor(db, { sql: 'select 1' }), { code: 'unsupported' });
  });

  it('calls back', async () => {
    const done = (action) => new Promise((resolve) => assert.equal(action((error, data) => resolve([error, data])), null));
    const person = fresh();
    assert.deepEqual(await done((call) => person.set(1, 'Ada', call)), [false, '0']);
    assert.deepEqual(await done((call) => person.get(1, call)), [false, 'Ada']);
    assert.deepEqual(await done((call) => db.increment(nameOf(), 'n', 2, call)), [false, '2']);
    assert.deepEqual(await done((call) => db.set('a b', 1, call)), [true, '']);
    assert.deepEqual(await done((call) => person.merge('copy', person, 'nothing', call)), [false, '0']);
    assert.deepEqual(await done((call) => person.getchildnodes({}, call)), [false, ['1', 'n']]);
    assert.deepEqual(await done((call) => db.open({ store }, call)), [false, '1']);
  });
});

describe('globals of mg-dbx', () => {
  it('set and get texts', () => {
    const person = fresh();
    assert.equal(person.get(1), '');
    for (const value of ['John Smith', '', '007', '.5', 'true', 'ü€👍', 'a\nb\u0000c']) {
      assert.equal(person.set(1, value), '0');
      assert.equal(person.get(1), value);
      assert.equal(db.get(nameOf(), 1), value);
      assert.equal(db.get(`^${nameOf()}`, '1'), value);
    }
    for (const [value, text] of [[42, '42'], [0.5, '0.5'], [true, 'true'], [2n ** 70n, '1180591620717411303424'], [NaN, 'NaN'], [Buffer.from('grün'), 'grün']]) {
      person.set('v', value);
      assert.equal(person.get('v'), text);
    }
    person.set('v', 42);
    assert.equal(store.get(nameOf(), 'v'), 42);
    store.set(nameOf(), 'json', { list: [1, null], empty: {}, digits: 9007199254740993n });
    assert.deepEqual([person.get('json'), person.get('json', 'list'), person.get('json', 'list', 0), person.get('json', 'list', 1), person.get('json', 'empty'), person.get('json', 'digits')], ['', '', '1', 'null', '', '9007199254740993']);
  });

  it('tell what is defined, and delete it', () => {
    const node = fresh('a');
    assert.equal(node.defined(), '0');
    node.set('own');
    assert.equal(node.defined(), '1');
    node.set('b', 'c', 'below');
    assert.deepEqual([node.defined(), node.defined('b'), node.defined('b', 'c'), db.defined(nameOf())], ['11', '10', '1', '10']);
    assert.equal(node.get(), 'own');
    assert.equal(node.delete('b'), '0');
    assert.deepEqual([node.defined(), node.get('b', 'c')], ['1', '']);
    assert.equal(db.delete(nameOf()), '0');
    assert.equal(db.defined(nameOf()), '0');
  });

  it('go from key to key, numbers first', () => {
    const node = fresh();
    const sorted = ['-5', '-.5', '0', '.5', '1', '2', '10', '0.5', '007', '1.0', 'A', 'a'];
    for (const key of sorted.toReversed()) node.set(key, 'x');
    const keys = [];
    for (let key = ''; (key = node.next(key)) !== '';) keys.push(key);
    assert.deepEqual(keys, sorted);
    keys.length = 0;
    for (let key = ''; (key = db.previous(nameOf(), key)) !== '';) keys.push(key);
    assert.deepEqual(keys, sorted.toReversed());
    assert.deepEqual([node.next(3), node.previous(3), node.next('a'), node.previous(-5), node.next('a', ''), db.next(nameOf(), 1)], ['10', '2', '', '', '', '2']);
  });

  it('count', () => {
    const node = fresh();
    assert.deepEqual([node.increment('n', 1), node.increment('n', 1.5), db.increment(nameOf(), 'n', -0.5), node.get('n')], ['1', '2.5', '2', '2']);
    node.set('text', '41');
    assert.equal(node.increment('text', 1), '42');
    node.set('word', '12abc');
    assert.equal(node.increment('word', 1), '13');
    node.set('none', 'abc');
    assert.equal(node.increment('none', '2'), '2');
    node.set('tenth', '0.1');
    assert.equal(node.increment('tenth', 0.2), '0.3');
  });

  it('lock over processes', async (test) => {
    const node = fresh();
    const holder = start(test, `
      import { server } from './mgdbx/index.js';
      const db = new server();
      db.open({ type: 'Forebay', path: ${JSON.stringify(store.path)} });
      console.log(db.lock('${nameOf()}', 1, 5));
      process.stdin.on('data', () => console.log(db.unlock('${nameOf()}', 1)));`);
    assert.equal(await holder.line(), '1');
    assert.deepEqual([node.lock(1, 0), node.lock(2, 0), node.lock(1, 0.02)], ['0', '1', '0']);
    holder.stdin.write('x');
    assert.equal(await holder.line(), '1');
    assert.deepEqual([node.lock(1, -1), node.unlock(1), node.unlock(1), db.unlock(nameOf(), 2)], ['1', '1', '0', '1']);
    holder.kill('SIGKILL');
    await holder.exited;
  });

  it('merge', () => {
    const one = fresh();
    const two = fresh();
    two.set(0, 'a', 'from two');
    one.set(1, 'b', 'stays');
    assert.equal(one.merge(1, two, 0), '0');
    assert.deepEqual([one.get(1, 'a'), one.get(1, 'b')], ['from two', 'stays']);
    assert.equal(one.merge(two), '0');
    assert.equal(one.get(0, 'a'), 'from two');
    const part = fresh('x');
    part.merge(new mglobal(db, nameOf().replace(/\d+/, (number) => number - 2), 1));
    assert.equal(part.get('b'), 'stays');
  });

  it('write and read many children', () => {
    const node = fresh('a');
    assert.equal(node.setchildnodes('b', [{ key: 1, data: 'record#1' }, { key: 2, data: 'record#2' }, { key: 3, data: 'record#3' }, { key: [4, 1], data: 'record#4,1' }, { key: 'a', data: 'record#a' }], {}), '0');
    const global = new mglobal(db, nameOf());
    assert.deepEqual(global.getchildnodes('a', 'b', {}), ['1', '2', '3', '4', 'a']);
    assert.deepEqual(global.getchildnodes('a', 'b', { getdata: true }), [
      { key: '1', data: 'record#1' }, { key: '2', data: 'record#2' }, { key: '3', data: 'record#3' }, { key: '4' }, { key: 'a', data: 'record#a' },
    ]);
    assert.deepEqual(global.getchildnodes('a', 'b', { getdata: true, start: 2, end: 3 }), [{ key: '2', data: 'record#2' }, { key: '3', data: 'record#3' }]);
    assert.deepEqual(global.getchildnodes('a', 'b', { max: 2 }), ['1', '2']);
    assert.deepEqual(global.getchildnodes('nothing', {}), []);
    const list = fresh();
    list.setchildnodes(['record#1', 'record#2', 'record#3'], { numerickeys: true, lock: true, locktimeout: 1 });
    list.set(3, 1, 'record#3,1');
    assert.deepEqual(list.getchildnodes({ numerickeys: true, lock: true }), ['record#1', 'record#2', 'record#3', undefined]);
    assert.deepEqual(list.getchildnodes({ numerickeys: true, start: 1, end: 2 }), ['record#2', 'record#3']);
    const hundred = fresh();
    hundred.setchildnodes(Array.from({ length: 150 }, (_, index) => ({ key: index, data: 'x' })));
    assert.equal(hundred.getchildnodes({}).length, 100);
    assert.equal(hundred.getchildnodes({ max: 1000 }).length, 150);
    const half = fresh();
    assert.equal(half.setchildnodes([{ key: 1, data: 'x' }, { key: '', data: 'y' }], {}), '');
    assert.match(db.geterrormessage(), /cannot be empty/);
    assert.equal(half.defined(1), '0');
    half.reset('Other', 'x');
    half.set('y', 1);
    assert.equal(db.get('Other', 'x', 'y'), '1');
  });
});

describe('transactions of mg-dbx', () => {
  it('begin, nest and end by calls', () => {
    const node = fresh();
    assert.equal(db.tlevel(), '0');
    assert.equal(db.tstart(), '0');
    node.set(1, 'a');
    assert.equal(db.tstart(), '0');
    assert.equal(db.tlevel(), '2');
    node.set(2, 'b');
    assert.equal(db.tcommit(), '0');
    assert.equal(db.tlevel(), '1');
    assert.equal(db.tcommit(), '0');
    assert.deepEqual([db.tlevel(), node.get(1), node.get(2)], ['0', 'a', 'b']);
    db.tstart();
    db.tstart();
    node.set(1, 'lost');
    assert.equal(node.get(1), 'lost');
    assert.equal(db.trollback(), '0');
    assert.deepEqual([db.tlevel(), node.get(1)], ['0', 'a']);
    assert.equal(db.tcommit(), '');
    assert.match(db.geterrormessage(), /no transaction is open/);
    assert.equal(db.trollback(), '');
  });
});

describe('cursors of mg-dbx', () => {
  const person = fresh();
  const global = nameOf();
  for (const [keys, data] of [[[1], 'one'], [[1, 'a'], '1a'], [[1, 'b', 'x', 'y'], '1bxy'], [[2, 'a'], '2a'], [[10], 'ten'], [['z', 1, 2, 3, 4, 5, 6, 7, 8, 9], 'deep']]) person.set(...keys, data);
  const all = (cursor, direction = 'next') => {
    const found = [];
    for (let item; (item = cursor[direction]()) !== null;) found.push(item);
    assert.equal(cursor[direction](), null);
    return found;
  };

  it('go over the children of a node', () => {
    assert.deepEqual(all(new mcursor(db, { global, key: [''] })), ['1', '2', '10', 'z']);
    assert.deepEqual(all(new mcursor(db, { global, key: [''] }), 'previous'), ['z', '10', '2', '1']);
    assert.deepEqual(all(new mcursor(db, { global, key: [2] })), ['10', 'z']);
    assert.deepEqual(all(new mcursor(db, { global })), ['1', '2', '10', 'z']);
    assert.deepEqual(all(new mcursor(db, { global, key: [1, ''] }, { getdata: true })), [{ key: 'a', data: '1a' }, { key: 'b', data: '' }]);
    assert.deepEqual(all(new mcursor(db, { global, key: [''] }, { getdata: true, format: 'url' }))[0], 'key1=1&data=one');
    const cursor = new mcursor(db, { global, key: [''] });
    cursor.next();
    cursor.next();
    assert.deepEqual([cursor.previous(), cursor.next()], ['1', '2']);
    cursor.reset({ global, key: [1, ''] });
    assert.deepEqual(all(cursor), ['a', 'b']);
    assert.equal(cursor.cleanup(), '');
    assert.throws(() => cursor.execute(), { code: 'unsupported' });
  });

  it('go over all nodes with data, in both directions, however deep', () => {
    const nodes = [['1'], ['1', 'a'], ['1', 'b', 'x', 'y'], ['2', 'a'], ['10'], ['z', '1', '2', '3', '4', '5', '6', '7', '8', '9']];
    assert.deepEqual(all(new mcursor(db, { global, key: [''] }, { multilevel: true })), nodes.map((key) => ({ key })));
    assert.deepEqual(all(new mcursor(db, { global, key: [] }, { multilevel: true })), nodes.map((key) => ({ key })));
    assert.deepEqual(all(new mcursor(db, { global, key: [''] }, { multilevel: true }), 'previous'), nodes.toReversed().map((key) => ({ key })));
    assert.deepEqual(all(new mcursor(db, { global, key: [1, 'a'] }, { multilevel: true, getdata: true })).slice(0, 2), [{ key: ['1', 'b', 'x', 'y'], data: '1bxy' }, { key: ['2', 'a'], data: '2a' }]);
    assert.deepEqual(all(new mcursor(db, { global, key: [2, 'a'] }, { multilevel: true }), 'previous'), nodes.slice(0, 3).toReversed().map((key) => ({ key })));
    assert.equal(all(new mcursor(db, { global, key: [1] }, { multilevel: true, getdata: true, format: 'url' }))[0], 'key1=1&key2=a&data=1a');
  });

  it('go over the names of globals', () => {
    const names = [...store.globals()].map((name) => `^${name}`);
    assert.deepEqual(all(new mcursor(db, { global: '' }, { globaldirectory: true })), names);
    assert.deepEqual(all(new mcursor(db, { global: '' }, { globaldirectory: true }), 'previous'), names.toReversed());
    assert.deepEqual(all(new mcursor(db, { global: names[1] }, { globaldirectory: true })), names.slice(2));
    assert.deepEqual(all(new mcursor(db, { global: names[2] }, { globaldirectory: true }), 'previous'), names.slice(0, 2).toReversed());
  });
});
