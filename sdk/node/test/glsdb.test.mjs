// Programs written for glsdb, on the store; runs under Node and Bun.
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { glsDB } from '../dist/glsdb/index.js';
import { freshStore, run } from './stores.mjs';

const store = freshStore();
const glsdb = new glsDB();
glsdb.open({ store });
after(() => glsdb.close());
let count = 0;
/** A global that no other test uses. */
const fresh = () => new glsdb.node(`G${++count}`);

describe('glsdb', () => {
  it('exists once', () => {
    assert.throws(() => new glsDB(), /You can only create one instance!/);
    assert.match(glsdb.version, /^Forebay \d/);
    assert.deepEqual(Object.keys(glsdb.dbx), ['db', 'mglobal', 'mcursor', 'mclass']);
  });

  it('opens a folder, or says that there is no store', () => {
    const printed = run(`
      import { glsDB } from './glsdb/index.js';
      const glsdb = new glsDB('yottadb');
      try { glsdb.open({ type: 'YottaDB', path: '/usr/local/lib/yottadb/r138' }); } catch (error) { console.log(error.code); }
      glsdb.open({ type: 'Forebay', path: ${JSON.stringify(`${store.path}-other`)} });
      console.log(new glsdb.node('PersonId').increment());
      glsdb.close();
      new glsDB().close();`);
    assert.equal(printed, 'no_store\n1\n');
  });

  it('lists globals', () => {
    fresh().value = 1;
    assert.deepEqual(glsdb.directory, [...store.globals()]);
    const seen = [];
    glsdb.forEachGlobal((name) => void seen.push(name));
    assert.deepEqual(seen, glsdb.directory);
    seen.length = 0;
    glsdb.forEachGlobal({ from: 'G' }, (name) => (seen.push(name), false));
    assert.equal(seen.length, 1);
  });

  it('has transactions that begin and end by calls', () => {
    const node = fresh();
    const { transaction } = glsdb;
    assert.equal(transaction.start(), '0');
    node.value = 'lost';
    assert.equal(transaction.level(), '1');
    assert.equal(transaction.rollback(), '0');
    assert.equal(node.value, '');
    transaction.start();
    node.value = 'kept';
    transaction.commit();
    assert.deepEqual([transaction.level(), node.value], ['0', 'kept']);
  });

  it('tells listeners of operations', () => {
    const heard = [];
    for (const type of ['get', 'set', 'delete', 'defined', 'next', 'previous', 'increment', 'lock', 'unlock', 'cursor_next', 'cursor_previous']) {
      glsdb.on(type, ({ subscripts }) => heard.push(`${type} ${subscripts}`));
      glsdb.on(type, () => assert.fail('one listener for each type'));
    }
    const node = fresh();
    node.$('a').value = 1;
    node.$('a').value;
    node.$('a').exists;
    node.$('n').increment();
    node.firstChild;
    node.lastChild;
    node.lock(1);
    node.unlock();
    node.forEachLeafNode(() => false);
    node.forEachLeafNode({ direction: 'reverse' }, () => false);
    node.delete();
    assert.deepEqual(heard, ['set a', 'get a', 'defined a', 'increment n', 'next ', 'previous ', 'lock ', 'unlock ', 'cursor_next ', 'cursor_previous ', 'delete ']);
    for (const type of heard.map((line) => line.split(' ')[0])) glsdb.off(type);
    node.value = 1;
    assert.equal(heard.length, 11);
  });

  it('says that functions of M and classes of InterSystems are not here', () => {
    assert.equal(glsdb.function('add^math')(1, 2), '');
    assert.match(glsdb.dbx.db.geterrormessage(), /no functions of M/);
    assert.throws(() => glsdb.classMethod('%Library.Date', 'x'), { code: 'unsupported' });
    assert.throws(() => glsdb.irisClass('Person'), { code: 'unsupported' });
    assert.equal(glsdb.irisClassExists('Person'), false);
  });
});

describe('nodes of glsdb', () => {
  it('are named by paths', () => {
    const node = new glsdb.node('Person.1.x[0]');
    assert.deepEqual([node.path, node.name, node.keys, node.subscripts, node.key], ['Person.1.x[0]', 'Person', ['Person', '1', 'x', '[000000]'], ['1', 'x', '[000000]'], '[000000]']);
    assert.equal(new glsdb.node('Person').key, '');
    assert.deepEqual(new glsdb.node(['Person', 1, 'a.b']).path, 'Person.1.a#056b');
    assert.deepEqual(new glsdb.node('Person.1.a#056b').keys, ['Person', '1', 'a.b']);
    assert.equal(new glsdb.node('Person').$(['a', 'b', 3]).path, 'Person.a.b.3');
    assert.equal(new glsdb.node('Person').$(0.5).key, '.5');
    assert.deepEqual(new glsdb.node(['Person', -0.5, 1e-7, 1e21]).keys, ['Person', '-.5', '.0000001', '1000000000000000000000']);
    assert.equal(new glsdb.node('Person').getChild('-0.25').key, '-.25');
  });

  it('hold documents, and arrays in them', () => {
    const person = fresh();
    assert.equal(person.$(9).exists, false);
    assert.equal(person.$(9).value, '');
    assert.equal(person.$(9).document, '');
    person.$(1).document = { firstName: 'A', tags: ['x', 'y'] };
    assert.deepEqual(person.$(1).document, { firstName: 'A', tags: ['x', 'y'] });
    assert.deepEqual(person.$(1).document_q, { firstName: 'A', tags: ['x', 'y'] });
    assert.deepEqual(person.$(1).value, { firstName: 'A', tags: ['x', 'y'] });
    assert.deepEqual(store.get(person.name, 1), { firstName: 'A', tags: ['x', 'y'] });
    person.$(1).document = { firstName: 'B' };
    assert.deepEqual(person.$(1).document, { firstName: 'B', tags: ['x', 'y'] });
    const tags = person.$(1).$('tags');
    tags.push('z');
    assert.deepEqual([tags._(0).value, tags.at(-1), tags.length, tags.$('[2]').value], ['x', 'z', 3, 'z']);
    const leaves = [];
    person.$(1).forEachLeafNode((leaf) => void leaves.push(leaf.path.split('.').slice(2).join('.')));
    assert.deepEqual(leaves, ['firstName', 'tags[0]', 'tags[1]', 'tags[2]']);
    assert.deepEqual(glsdb.document(person.$(1).proxy), person.$(1).document);
    person.$(12).value = 'next';
    assert.equal(person.$(9).nextSibling.key, '12');
    assert.equal(person.$(9).previousSibling.key, '1');
  });

  it('tell what they are', () => {
    const node = fresh();
    const state = (of) => [of.defined, of.exists, of.hasChildren, of.isLeafNode, of.hasValue, of.isArray, of.isArrayMember];
    assert.deepEqual(state(node), ['0', false, false, false, false, false, false]);
    node.value = 'x';
    assert.deepEqual(state(node), ['1', true, false, true, true, false, false]);
    node.$('a').value = 1;
    assert.deepEqual(state(node), ['11', true, true, false, false, false, false]);
    assert.deepEqual(node.value, { a: 1 });
    node.delete();
    node.document = [1, 2];
    assert.deepEqual(state(node), ['10', true, true, false, false, true, false]);
    assert.deepEqual(state(node._(1)), ['1', true, false, true, true, false, true]);
    node.document = [];
    assert.deepEqual([node.isArray, node.document, node.length], [true, [], 0]);
  });

  it('lead to those around them', () => {
    const node = fresh();
    node.document = { a: 1, b: { c: 2, d: 3 }, e: 4 };
    const b = node.$('b');
    assert.deepEqual([b.parent.path, b.firstChild.key, b.lastChild.key, b.nextSibling.key, b.previousSibling.key], [node.path, 'c', 'd', 'e', 'a']);
    assert.deepEqual([node.parent, node.nextSibling, node.previousSibling, node.$('e').nextSibling, node.$('x').firstChild], Array(5).fill(undefined));
    assert.deepEqual(node.children.map(({ key }) => key), ['a', 'b', 'e']);
    assert.deepEqual(node.childNodes.map(({ key }) => key), node.properties);
    assert.deepEqual(node.leafNodes.map(({ path }) => path), ['a', 'b.c', 'b.d', 'e'].map((key) => `${node.path}.${key}`));
    assert.equal(node.length, 3);
    assert.deepEqual([node.getChildAfter('a').key, node.childAfter('aa').key, node.childAfter('e')], ['b', 'b', false]);
    assert.deepEqual([node.getChildBefore('e').key, node.childBefore('d').key, node.childBefore('a')], ['b', 'b', false]);
    node.$('list').document = ['x', 'y'];
    assert.equal(node.$('list')._(0).nextSibling.key, '[000001]');
    assert.equal(node.$('list').lastChild.value, 'y');
    assert.deepEqual(node.$('list').properties, ['x', 'y']);
  });

  it('visit children in ranges', () => {
    const node = fresh();
    store.transaction(() => {
      for (let id = 90; id <= 210; id += 5) node.$(id).value = id;
    });
    const visited = (options) => {
      const seen = [];
      node.forEachChildNode(options, (child) => void seen.push(child.value));
      return seen;
    };
    assert.deepEqual(visited({ from: 100, to: 115 }), [100, 105, 110, 115]);
    assert.deepEqual(visited({ from: 101, to: 114 }), [105, 110]);
    assert.deepEqual(visited({ from: 200 }), [200, 205, 210]);
    assert.deepEqual(visited({ direction: 'reverse', from: 115, to: 105 }), [115, 110, 105]);
    assert.deepEqual(visited({ direction: 'backwards', to: 200 }), [210, 205, 200]);
    assert.equal(visited({ from: 0 }).length, 25);
    let calls = 0;
    node.forEachChildNode(() => ++calls < 3);
    assert.equal(calls, 3);
    const address = fresh();
    address.document = { city: 1, country: 2, county: 3, street: 4, area: 5 };
    const keys = [];
    address.forEachChildNode({ startsWith: 'c' }, ({ key }) => void keys.push(key));
    assert.deepEqual(keys, ['city', 'country', 'county']);
  });

  it('visit leaves in both directions, and only their own', () => {
    const node = fresh();
    node.$(1).document = { a: 'x', b: { c: 1 } };
    node.$(1).$('b').value = 'own';
    node.$(10).document = { leaked: true };
    const seen = [];
    node.$(1).forEachLeafNode({ getdata: true }, (keys, value) => void seen.push([keys.slice(2).join(), value]));
    assert.deepEqual(seen, [['a', 'x'], ['b', 'own'], ['b,c', 1]]);
    seen.length = 0;
    node.$(1).forEachLeafNode({ direction: 'backwards' }, (leaf) => void seen.push(leaf.key));
    assert.deepEqual(seen, ['c', 'b', 'a']);
    seen.length = 0;
    node.forEachLeafNode((leaf) => (seen.push(leaf.key), false));
    assert.deepEqual(seen, ['a']);
  });

  it('count, merge and lock', () => {
    const node = fresh();
    assert.deepEqual([node.$('n').increment(), node.$('n').increment(5), node.$('n').increment(-0.5)], ['1', '6', '5.5']);
    node.$('text').value = '41';
    assert.equal(node.$('text').increment(), '42');
    node.$('word').value = 'abc';
    assert.equal(node.$('word').increment(2), '2');
    const other = fresh();
    other.$('copy').value = 'stays';
    other.import(node);
    assert.deepEqual(other.document, { copy: 'stays', n: 5.5, text: 42, word: 2 });
    assert.deepEqual([node.lock(), node.lock(1), node.unlock(), node.unlock(), node.unlock()], [true, true, true, true, false]);
  });

  it('give values back with the type they were given', () => {
    const node = fresh();
    for (const value of ['.5', 5e-7, '007', '01737123456', '1e5', '0x10', ' ', '', 'null', 'true', 'false', true, false, null, 0, 0.25, -0.5, 12345678901234, 'ü€👍', 'a\nb', 'a\u0000b', '[0]']) {
      node.$('v').value = value;
      assert.equal(node.$('v').value, value);
      assert.equal(node.$('v').getValue(), value);
      assert.equal(node.$('v').document, value);
      node.$('d').document = { value, list: [value] };
      assert.deepEqual(node.$('d').document, { list: [value], value });
    }
    node.$('v').value = undefined;
    assert.equal(node.$('v').value, '');
    node.$('v').rawSet(7);
    assert.equal(node.$('v').value, 7);
    for (const document of [{}, [], { a: {} }, { a: [] }, { a: [[], {}] }, { '[0]': 1, '[]': 2 }, JSON.parse('{"__proto__":1}'), { deep: { a: { b: { c: { d: { e: { f: { g: { h: 1 } } } } } } } } }]) {
      node.$('e').delete();
      node.$('e').document = document;
      assert.deepEqual(node.$('e').document, document);
    }
    node.$('f').document = { list: ['a', 'b', 'c'] };
    node.$('f').document = { list: ['z'] };
    assert.deepEqual(node.$('f').document, { list: ['z'] });
    node.$('g').document = { date: new Date(0), gone: undefined, fn() {} };
    assert.deepEqual(node.$('g').document, { date: '1970-01-01T00:00:00.000Z' });
  });

  it('tell a member that is called [0] from the element of an array', () => {
    const node = fresh();
    node.document = { '[0]': 'member', list: ['element'] };
    assert.deepEqual([node.$('[0]').value, node.$('list').$('[0]').value], ['member', 'element']);
    assert.deepEqual(node.children.map((child) => child.document), ['member', ['element']]);
    node.$('[0]').value = 'changed';
    assert.deepEqual(node.document, { '[0]': 'changed', list: ['element'] });
  });

  it('make arrays by their elements', () => {
    const node = fresh();
    node.$('x')._(0).value = 'a';
    node.$(['x', '[1]']).value = 'b';
    assert.deepEqual(node.document, { x: ['a', 'b'] });
    node.$('x')._(4).document = { far: true };
    assert.deepEqual(node.$('x').document, ['a', 'b', null, null, { far: true }]);
    new glsdb.node(`${node.path}.y[0].z[1]`).value = 1;
    assert.deepEqual(node.$('y').document, [{ z: [null, 1] }]);
  });

  it('take a document whole or not at all', () => {
    const node = fresh();
    node.document = { a: 1, inner: { kept: true } };
    const before = store.stats().lastCommit;
    node.document = { a: 2, b: 3, inner: { c: 4, d: 5 } };
    assert.equal(store.stats().lastCommit - before, 1);
    assert.throws(() => (node.document = { a: 9, inner: { c: 9 }, ['k'.repeat(3000)]: 1 }), { code: 'key' });
    assert.deepEqual(node.document, { a: 2, b: 3, inner: { c: 4, d: 5, kept: true } });
  });

  it('that are arrays do what arrays do', () => {
    const node = fresh();
    node.document = ['b', 'c'];
    assert.deepEqual([node.unshift('a'), node.push('d'), node.pop(), node.shift()], [3, 4, 'd', 'a']);
    assert.deepEqual([node.concat(['d'], 'e'), node.document], [['b', 'c', 'd', 'e'], ['b', 'c', 'd', 'e']]);
    assert.deepEqual([node.slice(1, 3), node.splice(1, 2, 'x'), node.document], [['c', 'd'], ['c', 'd'], ['b', 'x', 'e']]);
    assert.deepEqual([node.includes('x'), node.includes('c'), node.indexOf('e'), node.indexOf('b', 1), node.at(0), node.at(-1), node.at(9)], [true, false, 2, -1, 'b', 'e', undefined]);
    while (node.length > 0) node.pop();
    assert.deepEqual([node.pop(), node.document], [undefined, []]);
    node.push({ a: 1 });
    assert.deepEqual(node.document, [{ a: 1 }]);
    const none = fresh();
    none.$('a').value = 1;
    assert.deepEqual([none.push(1), none.pop(), none.at(0), none.slice(), none.includes(1), none.indexOf(1)], [undefined, undefined, undefined, undefined, false, -1]);
  });
});

describe('proxies of glsdb', () => {
  it('look like objects', () => {
    const person = fresh();
    person.$(1).document = { firstName: 'A', tags: ['x', 'y'] };
    const q = person.proxy;
    q[1].firstName = 'B';
    assert.deepEqual([q[1].firstName.valueOf(), q[1].firstName._value, q[1].firstName._get], ['B', 'B', 'B']);
    q[2] = { firstName: 'C' };
    assert.deepEqual(person.$(2).document, { firstName: 'C' });
    assert.equal(Object.hasOwn(q[1], 'foo'), false);
    assert.equal(Object.hasOwn(q[1], 'tags'), true);
    assert.deepEqual(Object.keys(q), ['1', '2']);
    assert.deepEqual(Object.entries(q[2]).map(([key, value]) => [key, value.valueOf()]), [['firstName', 'C']]);
    assert.deepEqual(Object.values(q[2]).map((value) => value.valueOf()), ['C']);
    const { firstName } = Object.getOwnPropertyDescriptors(q[2]);
    assert.deepEqual([firstName.value, firstName.enumerable], ['C', true]);
    const keys = [];
    for (const key in q[1]) keys.push(key);
    assert.deepEqual(keys, ['firstName', 'tags']);
    assert.equal('tags' in q[1], true);
    delete q[1].tags;
    assert.deepEqual(person.$(1).document, { firstName: 'B' });
    q.counter++;
    q.counter++;
    assert.equal(person.$('counter').value, 2);
    q.nothing = null;
    assert.equal(person.$('nothing').value, null);
    assert.equal(q.counter._increment(), '3');
    assert.deepEqual([q._node.path, q[1]._exists, q[1]._parent.path, q._lock(1), q._unlock()], [person.path, true, person.path, true, true]);
    let calls = 0;
    q._forEachChildNode(() => void calls++);
    assert.equal(calls, 4);
    q._delete();
    assert.equal(person.exists, false);
  });

  it('of arrays look like arrays', () => {
    const node = fresh();
    node.document = { list: ['x', 'y', 'z'] };
    const { list } = node.proxy;
    assert.deepEqual([list[0], list.length, [...list], list.includes('y')], ['x', 3, ['x', 'y', 'z'], true]);
    list.push('a');
    list[0] = 'first';
    assert.deepEqual(list.map((value) => value.toUpperCase()), ['FIRST', 'Y', 'Z', 'A']);
    list.sort();
    assert.deepEqual(node.$('list').document, ['a', 'first', 'y', 'z']);
    assert.deepEqual(Object.keys(list), ['0', '1', '2', '3']);
    assert.ok(Array.isArray(list));
    assert.deepEqual([list.reverse(), list.fill('f', 1, 2), list.copyWithin(0, 3)].at(-1), ['a', 'f', 'first', 'a']);
    assert.deepEqual(list.splice(0, 1), ['a']);
    assert.deepEqual([list.shift(), list.pop(), list.unshift('u'), list._value], ['f', 'a', 2, ['u', 'first']]);
  });

  it('of arrays write only where an array would change', () => {
    const node = fresh();
    node.document = ['x', 'y'];
    node.stored.expire(Date.now() + 3_600_000);
    const before = store.stats().lastCommit;
    const list = node.proxy;
    assert.deepEqual(
      [list.map((value) => value + 1), list.includes('y'), list.join(), list.concat('z'), list.at(-1), list.toSorted?.().length ?? 2],
      [['x1', 'y1'], true, 'x,y', ['x', 'y', 'z'], 'y', 2],
    );
    assert.equal(store.stats().lastCommit, before);
    assert.ok(node.stored.expires instanceof Date);
    const printed = run(
      `import { glsDB } from './glsdb/index.js';
      const glsdb = new glsDB();
      glsdb.open();
      const list = new glsdb.node('${node.path}').proxy;
      try { list.push('z'); } catch (error) { console.log(error.code); }
      console.log(list.filter((value) => value !== 'x').join(), list.slice(0, 1).length);`,
      { FOREBAY_STORE: store.path, FOREBAY_STORE_MODE: 'ro' },
    );
    assert.equal(printed, 'read_only\ny 1\n');
  });
});
