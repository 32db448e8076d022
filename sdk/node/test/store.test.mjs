// Values, nodes and iteration of the store; runs under Node and Bun.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { Store, StoreNode, open } from '../dist/store/index.js';
import { freshFolder, freshStore, refuses, run } from './stores.mjs';

describe('values', () => {
  const store = freshStore();
  const texts = [
    '.5', '007', '01737123456', '1e5', '0x10', ' ', '', 'null', 'true', 'false', 'undefined', 'NaN', '-', '0', '-0', '{}', '[]', '[0]', '"', '\\',
    'a\nb\tc\r\u0000d\u0001\u001f\u007f', 'Grüße', '€', '日本語', '👩‍👩‍👧‍👦', '\u2028', 'x'.repeat(63), 'x'.repeat(65), 'é'.repeat(5000), 'x"\\'.repeat(100_000),
  ];
  const numbers = [0, 1, -1, 5e-7, 0.1, 1e21, 1e-320, 5e-324, 1.7976931348623157e308, 2 ** 31, -(2 ** 31), 2 ** 53, 2 ** 53 + 2, 1737123456, 123456789.125];

  it('come back with their type, whatever they look like', () => {
    for (const value of [...texts, ...numbers, true, false, null]) {
      store.set('Value', 'x', value);
      assert.equal(store.get('Value', 'x'), value);
      assert.equal(store.node('Value', 'x').value, value);
      assert.deepEqual(store.node('Value', 'x').document, value);
      store.set('Value', 'in', { member: value, list: [value] });
      assert.equal(store.get('Value', 'in', 'member'), value);
      assert.equal(store.get('Value', 'in', 'list', 0), value);
      assert.deepEqual(store.get('Value', 'in'), { list: [value], member: value });
    }
  });

  it('that are objects and arrays come back as they were, small or large', () => {
    const filler = 'f'.repeat(3000);
    const deep = {};
    let place = deep;
    for (let level = 0; level < 60; level++) place = place[`level${level}`] = {};
    place.end = true;
    for (const value of [
      {}, [], [[]], [{}], { a: {} }, { a: [] }, [[], {}, [[]]], [null], { a: null },
      { '[0]': 1, '[1]': 2 }, { 0: 'a', 1: 'b' }, { '01': 1, 1: 2, '1.0': 3, '.5': 4, '-1': 5, '': 6 },
      { 'a.b': 1, 'a,b': 2, 'a"b': 3, 'a\u0000b': 4, 'é': 5, '👍': 6, _node: 7, valueOf: 8, constructor: 9, toString: 10 },
      JSON.parse('{"__proto__": {"polluted": true}, "x": 1}'),
      { list: Array.from({ length: 300 }, (_, index) => ({ index, square: index * index })) },
      deep,
    ]) {
      for (const document of [value, { value, filler, more: [filler] }]) {
        const node = store.node('Document', 'x');
        node.document = document;
        assert.deepEqual(node.document, document);
        assert.deepEqual(JSON.parse(node.json), document);
        node.delete();
        node.set(document);
        assert.deepEqual(node.get(), document);
        node.delete();
        assert.equal(node.get(), undefined);
        assert.equal(node.document, undefined);
        assert.equal(node.exists, false);
      }
    }
    assert.equal({}.polluted, undefined);
  });

  it('of __proto__ stay a member', () => {
    const node = store.node('Proto');
    node.document = JSON.parse('{"__proto__": {"a": 1}}');
    assert.deepEqual(Object.keys(node.document), ['__proto__']);
    assert.equal(node.get('__proto__', 'a'), 1);
    assert.equal(Object.getPrototypeOf(node.document), Object.prototype);
  });

  it('of an array that shrinks leave no tail', () => {
    const node = store.node('Shrinks');
    node.document = { list: ['a', 'b', 'c', 'f'.repeat(3000)] };
    node.document = { list: ['z'] };
    assert.deepEqual(node.document, { list: ['z'] });
    node.at('list').set([]);
    assert.deepEqual(node.document, { list: [] });
  });

  it('that JavaScript cannot hold keep their digits in text', () => {
    const node = store.node('Digits');
    node.json = '{ "b": 12345678901234567890.123456789, "a": [1.50, 1E400, -0, 9007199254740993] }';
    assert.equal(node.json, '{"a":[1.50,1E400,-0,9007199254740993],"b":12345678901234567890.123456789}');
    assert.equal(node.at('a', 3).json, '9007199254740993');
    assert.equal(node.get('a', 3), 9007199254740992);
    store.set('Digits', 'big', 2n ** 80n);
    assert.equal(node.at('big').json, '1208925819614629174706176');
    store.set('Digits', 'in', { big: 9007199254740993n });
    assert.equal(node.at('in').json, '{"big":9007199254740993}');
  });

  it('that are dates and the like become what they say they are', () => {
    class Point {
      constructor() {
        this.x = 1;
      }
    }
    store.set('Like', { date: new Date(0), url: new URL('http://a/'), point: new Point(), bare: Object.assign(Object.create(null), { y: 2 }) });
    assert.deepEqual(store.get('Like'), { bare: { y: 2 }, date: '1970-01-01T00:00:00.000Z', point: { x: 1 }, url: 'http://a/' });
  });

  it('that are members and undefined are left out', () => {
    store.set('Left', { a: undefined, b: 1, c: undefined });
    assert.deepEqual(store.get('Left'), { b: 1 });
    store.set('Left', { a: undefined });
    assert.deepEqual(store.get('Left'), {});
  });

  it('that JSON cannot say are refused, and where they were is told', () => {
    const cycle = {};
    cycle.self = cycle;
    for (const [value, text] of [
      [undefined, /cannot store undefined$/],
      [() => 1, /cannot store function$/],
      [Symbol('s'), /cannot store symbol$/],
      [NaN, /cannot store NaN$/],
      [-Infinity, /cannot store -Infinity$/],
      [{ a: [1, { b: NaN }] }, /cannot store NaN at \.a\[1\]\.b$/],
      [{ a: { b: [() => 1] } }, /cannot store function at \.a\.b\[0\]$/],
      [[1, undefined], /cannot store undefined at \[1\]$/],
      [[, 1], /cannot store undefined at \[0\]$/],
      [new Map([[1, 2]]), /cannot store a Map$/],
      [{ set: new Set() }, /cannot store a Set at \.set$/],
      [{ bytes: new Uint8Array(2) }, /cannot store a Uint8Array at \.bytes$/],
      [{ promise: Promise.resolve() }, /cannot store a Promise/],
      [{ x: /x/ }, /cannot store a RegExp/],
      [new Error('x'), /cannot store a Error/],
      [cycle, /more than 200 levels/],
    ]) {
      refuses('not_json', () => store.set('Refused', value), text);
      refuses('not_json', () => store.set('Refused', 'below', 'it', value), text);
      refuses('not_json', () => (store.node('Refused').document = value), text);
      refuses('not_json', () => store.node('Refused').layOver(value), text);
    }
    refuses('not_json', () => store.node('Refused').set());
    assert.equal(store.node('Refused').exists, false);
  });

  it('with half a surrogate pair are refused', () => {
    for (const text of ['\ud800', 'a\udc00b', '\udc00\ud800', `${'x'.repeat(70)}\ud83d`]) {
      refuses('not_text', () => store.set('Half', text), /surrogate/);
      refuses('not_text', () => store.set('Half', { text }), /surrogate/);
      refuses('not_text', () => store.set('Half', { [text]: 1 }), /surrogate/);
      refuses('not_text', () => store.set('Half', text, 1), /surrogate/);
      refuses('not_text', () => (store.node('Half').json = JSON.stringify({ a: 1 }) + text), /surrogate/);
    }
    refuses('json', () => (store.node('Half').json = '"\\ud800"'));
    refuses('json', () => (store.node('Half').json = '{a:1}'), /at byte 1/);
    refuses('json', () => (store.node('Half').json = undefined));
    assert.equal(store.node('Half').exists, false);
  });

  it('whose own code uses the store are written where they belong', () => {
    store.set('Source', { a: 1, list: [2] });
    const user = {
      toJSON: undefined,
      get a() {
        store.set('Side', 'effect', { n: store.node('Side', 'n').increment(), long: 'x'.repeat(100_000) });
        return store.get('Source', 'a');
      },
      date: new (class {
        toJSON() {
          return store.node('Source').at('list').document;
        }
      })(),
    };
    for (const [write, read] of [
      [() => store.set('Own', 'x', user), () => store.get('Own', 'x')],
      [() => store.node('Own').set('y', user), () => store.get('Own', 'y')],
      [() => (store.node('Own', 'z').document = user), () => store.get('Own', 'z')],
      [() => store.node('Own', 'l').layOver(user), () => store.get('Own', 'l')],
      [() => store.node('Own', 'p').patch(user), () => store.get('Own', 'p')],
    ]) {
      write();
      assert.deepEqual(read(), { a: 1, date: [2] });
    }
    assert.deepEqual(store.get('Source'), { a: 1, list: [2] });
    assert.deepEqual([...store.node('Own').keys()], ['l', 'p', 'x', 'y', 'z']);
    assert.deepEqual([...store.node('Side').keys()], ['effect', 'n']);
    refuses('not_json', () => store.set('Own', 'x', { get a() { return store.get('Source') && NaN; } }));
    refuses('key', () => store.set('Own', 'x', { get a() { return store.get('a b'); } }));
    assert.deepEqual(store.get('Own', 'x'), { a: 1, date: [2] });
  });

  it('over the limit are refused before anything is written', () => {
    const small = freshStore({ valueBytesMax: 1000, durability: 'relaxed' });
    refuses('value_too_long', () => small.set('A', 'x'.repeat(1000)), /1002 bytes.*value_bytes_max 1000/);
    small.set('A', 'x'.repeat(998));
    assert.equal(small.get('A').length, 998);
  });

  it('larger than the memory shared with the addon pass through', () => {
    const list = Array.from({ length: 20_000 }, (_, index) => `element "${index}" é`);
    store.set('Large', list);
    assert.deepEqual(store.get('Large'), list);
    store.node('Large').layOver({ 20000: 'x'.repeat(200_000) });
    assert.equal(store.get('Large').length, 20_001);
    const text = JSON.stringify(list);
    store.node('Large').json = text;
    assert.equal(store.node('Large').json, text);
  });
});

describe('nodes', () => {
  it('are named by texts and numbers, of which 1 and "1" are the same', () => {
    const store = freshStore();
    store.set('Person', 'data', 1, 'name', 'Ada');
    assert.equal(store.get('Person', 'data', '1', 'name'), 'Ada');
    assert.equal(store.get('Person', 'data', 1n, 'name'), 'Ada');
    assert.equal(store.get('Person', 'data', '01', 'name'), undefined);
    store.set('Person', 0.5, 'half');
    assert.equal(store.get('Person', '.5'), 'half');
    assert.equal(store.get('Person', '0.5'), undefined);
    store.set('Person', -0, 'zero');
    assert.equal(store.get('Person', 0), 'zero');
    store.set('Person', 2 ** 40, 'large');
    assert.equal(store.get('Person', '1099511627776'), 'large');
    store.set('Person', -7, 'less');
    assert.equal(store.get('Person', '-7'), 'less');
  });

  it('know their place', () => {
    const store = freshStore();
    const node = store.node('Person', 'data', 7).at('tags', 0);
    assert.ok(node instanceof StoreNode && store instanceof Store && node.store === store);
    assert.deepEqual(node.path, ['Person', 'data', 7, 'tags', 0]);
    assert.deepEqual([node.global, node.key, String(node)], ['Person', '0', '^Person("data",7,"tags",0)']);
    assert.deepEqual(node.parent.path, ['Person', 'data', 7, 'tags']);
    assert.equal(store.node('Person').parent, undefined);
    assert.equal(String(store.node('Person')), '^Person');
  });

  it('may have a value, children, or both', () => {
    const store = freshStore();
    const node = store.node('Both', 'x');
    const state = () => [node.defined(), node.exists, node.hasValue, node.hasChildren];
    assert.deepEqual(state(), [0, false, false, false]);
    node.set('own');
    assert.deepEqual(state(), [1, true, true, false]);
    node.set('a', 1);
    assert.deepEqual(state(), [11, true, true, true]);
    assert.equal(node.get(), 'own');
    assert.deepEqual(node.document, { a: 1 });
    node.set('other');
    assert.deepEqual(node.document, { a: 1 });
    node.document = { b: 2 };
    assert.deepEqual(state(), [10, true, false, true]);
    assert.deepEqual(node.value, { b: 2 });
    node.value = [];
    assert.deepEqual([...state(), node.isArray], [1, true, true, false, true]);
    node.set(0, 'first');
    assert.deepEqual([node.isArray, node.value], [true, ['first']]);
    node.set('x', 1);
    assert.deepEqual([node.isArray, node.value], [false, { 0: 'first', x: 1 }]);
    assert.equal(node.delete(), true);
    assert.equal(node.delete(), false);
    assert.equal(store.node('Both').exists, false);
    node.set('a', 'b', 1);
    assert.equal(store.delete('Both', 'x', 'a'), true);
    assert.equal(store.delete('Both', 'x', 'a'), false);
    assert.equal(node.exists, false);
  });

  it('that cannot be are refused', () => {
    const store = freshStore();
    for (const [action, message] of [
      [() => store.get(''), /name of a global is empty/],
      [() => store.get('a b'), /cannot contain ' '/],
      [() => store.get('a'.repeat(65)), /65 bytes \(at most 64\)/],
      [() => store.get(7), /a string, not number/],
      [() => store.node(null), /a string, not null/],
      [() => store.get('A', undefined), /a subscript is a string, a number or a bigint, not undefined/],
      [() => store.get('A', null), /not null/],
      [() => store.get('A', {}), /not object/],
      [() => store.get('A', true), /not boolean/],
      [() => store.get('A', NaN), /NaN cannot be a subscript/],
      [() => store.set('A', Infinity, 1), /inf cannot be a subscript/],
      [() => store.set('A', 'x'.repeat(1900), 1), /has 19\d\d bytes \(at most 1900\)/],
      [() => store.get('A', 'x'.repeat(5000)), /5000 characters \(at most 4096\)/],
      [() => store.get('A', ...Array(300).fill('x')), /more than 200 subscripts/],
      [() => store.get('A', ...Array(30).fill('x'.repeat(4000))), /49152 bytes/],
    ]) refuses('key', action, message);
    // A path that failed midway must not be reused as if it had been written.
    const node = store.node('A', 'b');
    node.set(1);
    refuses('key', () => store.get('A', 'b', undefined));
    assert.equal(node.get(), 1);
  });

  it('keep apart however calls follow each other', () => {
    const store = freshStore();
    const [one, two] = [store.node('One', 'x'), store.node('Two', 'yy', 3)];
    one.set('a', 1);
    two.set('a', 2);
    for (let round = 0; round < 3; round++) {
      assert.equal(one.get('a'), 1);
      assert.equal(one.get('b'), undefined);
      assert.equal(two.get('a'), 2);
      assert.equal(store.get('One', 'x', 'a'), 1);
      assert.deepEqual([...store.globals('P')], ['Two']);
      assert.equal(one.get('a'), 1);
    }
  });

  it('are told apart however much of a path is that of the call before', () => {
    const store = freshStore();
    const known = new Map();
    const steps = ['a', 'b', 'aa', '', 1, '1', '01', 12, 1.5, -0, 7n, 'é'];
    let seed = 1;
    const below = (bound) => (seed = (seed * 48_271) % 2_147_483_647) % bound;
    for (let turn = 0; turn < 20_000; turn++) {
      const path = Array.from({ length: 1 + below(4) }, () => steps[below(below(2) === 0 ? 3 : steps.length)]);
      const key = JSON.stringify(path.map(String));
      const kind = below(8);
      if (kind === 0) refuses('key', () => store.get('G', ...path, null));
      else if (kind === 1) store.node('H', ...path).get();
      else if (kind === 2) store.globals('B').next();
      if (below(2) === 0) known.set(key, (store.set('G', ...path, turn), turn));
      else if (known.has(key)) assert.equal(store.get('G', ...path), known.get(key), key);
    }
    // One that was rejected midway leaves its valid beginning for reuse, and nothing else.
    store.set('T', 'a', 'b', 'aa', 1);
    refuses('key', () => store.get('T', 1, null));
    store.set('T', 1, 'b', 'aa', 2);
    assert.deepEqual(store.node('T').document, { 1: { b: { aa: 2 } }, a: { b: { aa: 1 } } });
  });
});

describe('iteration', () => {
  const store = freshStore();
  const node = store.node('Order');
  const sorted = ['-20', '-3.5', '-1', '0', '.05', '.5', '1', '2', '10', '1000', '', ' ', '-0', '0.5', '007', '1.0', 'A', 'B', 'a', 'aa', 'b', 'é', '日', '👍'];
  store.transaction(() => {
    for (const key of sorted.toReversed()) node.set(key, `=${key}`);
  });

  it('is in the order of M: numbers by value, then texts by their bytes', () => {
    assert.deepEqual([...node.keys()], sorted);
    assert.deepEqual([...node.keys({ reverse: true })], sorted.toReversed());
    assert.deepEqual([...node].map(({ key, value }) => [key, value]), sorted.map((key) => [key, `=${key}`]));
    assert.deepEqual([...node.entries()], sorted.map((key) => [key, `=${key}`]));
    assert.deepEqual([...node.values({ reverse: true })], sorted.toReversed().map((key) => `=${key}`));
    assert.deepEqual([...node.children({ from: 'B', to: 'b' })].map(String), ['^Order("B")', '^Order("a")', '^Order("aa")', '^Order("b")']);
  });

  it('takes ranges, prefixes and limits', () => {
    for (const [range, expected] of [
      [{ from: 1, to: 10 }, ['1', '2', '10']],
      [{ after: 1, before: 10 }, ['2']],
      [{ from: 1.5, to: 999 }, ['2', '10']],
      [{ from: 'a' }, ['a', 'aa', 'b', 'é', '日', '👍']],
      [{ after: 'a', before: 'b' }, ['aa']],
      [{ from: 'a', after: 'a' }, ['aa', 'b', 'é', '日', '👍']],
      [{ to: 'B', before: 'B', from: '1.0' }, ['1.0', 'A']],
      [{ from: 'a', to: 'B' }, []],
      [{ prefix: 'a' }, ['a', 'aa']],
      [{ prefix: '0' }, ['0.5', '007']],
      [{ prefix: '1' }, ['1.0']],
      [{ prefix: '日' }, ['日']],
      [{ prefix: '' , limit: 1 }, ['-20']],
      [{ prefix: 'a', after: 'a' }, ['aa']],
      [{ prefix: 'a', to: 'a' }, ['a']],
      [{ limit: 2 }, ['-20', '-3.5']],
      [{ limit: 0 }, []],
      [{ after: '10', limit: 1 }, ['1000']],
    ]) {
      assert.deepEqual([...node.keys(range)], expected, JSON.stringify(range));
      if (range.limit === undefined) assert.deepEqual([...node.keys({ ...range, reverse: true })], expected.toReversed());
    }
    assert.deepEqual([...node.keys({ reverse: true, limit: 2 })], ['👍', '日']);
  });

  it('steps from child to child, also from where there is none', () => {
    assert.deepEqual([node.next(), node.next(2), node.next('2'), node.next(3), node.next('👍')], ['-20', '10', '10', '10', undefined]);
    assert.deepEqual([node.previous(), node.previous(2), node.previous(3), node.previous(-20)], ['👍', '1', '2', undefined]);
    assert.equal(store.node('Nothing').next(), undefined);
  });

  it('comes through many pages, in both directions, with ends anywhere', () => {
    const many = store.node('Many');
    store.transaction(() => {
      for (let index = 0; index < 6000; index++) many.set(index, { index });
    });
    const expected = Array.from({ length: 6000 }, (_, index) => String(index));
    assert.deepEqual([...many.keys()], expected);
    assert.deepEqual([...many.keys({ reverse: true })], expected.toReversed());
    assert.deepEqual([...many.keys({ from: 31, to: 4000, limit: 1000 })], expected.slice(31, 1031));
    for (const limit of [31, 32, 33, 160, 161]) {
      assert.deepEqual([...many.entries({ limit })], expected.slice(0, limit).map((key) => [key, { index: Number(key) }]));
    }
    assert.deepEqual([...many.leaves()], expected.map((key) => [[key, 'index'], Number(key)]));
  });

  it('comes through pages that end early because their values are long', () => {
    const long = store.node('Long');
    const value = 'x'.repeat(300_000);
    for (let index = 0; index < 10; index++) long.set(index, value);
    assert.deepEqual([...long.values()], Array(10).fill(value));
    assert.deepEqual([...long.entries({ reverse: true, limit: 9 })].map(([key]) => key), ['9', '8', '7', '6', '5', '4', '3', '2', '1']);
    assert.deepEqual([...long.leaves()].map(([[key]]) => Number(key)), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  });

  it('goes on while what it goes over changes', () => {
    const queue = store.node('Queue');
    store.transaction(() => {
      for (let index = 0; index < 100; index++) queue.set(index, index);
    });
    let seen = 0;
    for (const item of queue) {
      assert.equal(item.delete(), true);
      seen++;
    }
    assert.deepEqual([seen, queue.exists], [100, false]);
  });

  it('finds every value of a subtree and nothing beside it', () => {
    const tree = store.node('Tree');
    tree.set(1, { a: 'x', b: { c: [1, {}] }, d: [] });
    tree.set(1, 'b', 'own', 'y');
    tree.set(1, 'b', 'c', 'own of c');
    tree.set(10, { leaked: true });
    assert.deepEqual([...tree.at(1).leaves()], [
      [['a'], 'x'],
      [['b', 'c'], 'own of c'],
      [['b', 'c', '0'], 1],
      [['b', 'c', '1'], {}],
      [['b', 'own'], 'y'],
      [['d'], []],
    ]);
    assert.deepEqual([...tree.at(1, 'a').leaves()], [[[], 'x']]);
    assert.deepEqual([...tree.at(2).leaves()], []);
    const lists = store.node('Lists');
    lists.document = Array.from({ length: 40 }, (_, one) => Array.from({ length: 40 }, (_, two) => one * two));
    assert.deepEqual([...lists.leaves()].map(([path, value]) => value - path[0] * path[1]), Array(1600).fill(0));
    assert.deepEqual([...lists.leaves()].map(([path]) => path[0] * 40 + Number(path[1])), Array.from({ length: 1600 }, (_, index) => index));
  });

  it('lists globals', () => {
    const other = freshStore();
    assert.deepEqual([...other.globals()], []);
    other.transaction(() => {
      for (let index = 0; index < 700; index++) other.set(`G${1000 + index}`, index);
    });
    assert.equal([...other.globals()].length, 700);
    assert.deepEqual([...other.globals('G1697')], ['G1697', 'G1698', 'G1699']);
  });
});

describe('writes', () => {
  it('increment exactly', () => {
    const counter = freshStore().node('Counter');
    assert.equal(counter.increment(), 1);
    assert.equal(counter.increment(), 2);
    assert.equal(counter.increment(-0.5), 1.5);
    counter.set(0.1);
    assert.equal(counter.increment(0.2), 0.3);
    counter.set(9007199254740993n);
    assert.equal(counter.increment(1n), 9007199254740994n);
    assert.equal(counter.json, '9007199254740994');
    counter.set('text');
    refuses('not_a_number', () => counter.increment(), /cannot increment "text"/);
    refuses('not_a_number', () => counter.increment('1'));
    refuses('not_json', () => counter.increment(NaN));
    counter.set('1');
    refuses('not_a_number', () => counter.increment(), /"1"/);
    counter.json = '1e300';
    refuses('number_too_long', () => counter.increment());
  });

  it('merge and lay over', () => {
    const store = freshStore();
    store.set('From', { a: 1, b: { c: 2 } });
    const to = store.node('To', 'x');
    to.set({ b: { d: 3 }, e: 4 });
    to.merge(store.node('From'));
    assert.deepEqual(to.document, { a: 1, b: { c: 2, d: 3 }, e: 4 });
    to.layOver({ b: { c: 'new' }, f: [1] });
    assert.deepEqual(to.document, { a: 1, b: { c: 'new', d: 3 }, e: 4, f: [1] });
    refuses('overlap', () => to.merge(store.node('To')));
    refuses('unsupported', () => to.merge(freshStore().node('From')));
  });

  it('are refused when the store is for reading', () => {
    const folder = freshFolder();
    run(`import { open } from './store/index.js';\nopen(${JSON.stringify(folder)}).set('A', 1);`);
    const store = open(folder, { readOnly: true });
    assert.equal(store.get('A'), 1);
    refuses('read_only', () => store.set('A', 2));
    refuses('read_only', () => store.transaction(() => 1));
    refuses('open_already', () => open(folder));
    store.close();
    refuses('absent', () => open(freshFolder(), { readOnly: true }), /there is no store in/);
    refuses('absent', () => open(freshFolder(), { create: false }));
  });
});

const casesFile = new URL('../../../protocol/vectors/store/cases.json', import.meta.url);

describe('what it does in every language:', () => {
  for (const { name, steps } of JSON.parse(readFileSync(casesFile, 'utf8'))) {
    it(name, () => {
      const store = freshStore();
      steps.forEach((step) => take(store, step));
    });
  }
});

class Thrown extends Error {}

/** Does a step of the cases for all languages. */
function take(store, step) {
  const node = step.at === undefined ? undefined : () => store.node(...step.at);
  const doing = {
    get: () => node().get(),
    set: () => node().set(step.with),
    document: () => node().document,
    json: () => node().json,
    setJson: () => void (node().json = step.with),
    keys: () => [...node().keys(step.range)],
    items: () => [...node().entries(step.range)],
    leaves: () => [...node().leaves()],
    isArray: () => node().isArray,
    delete: () => node().delete(),
    defined: () => node().defined(),
    next: () => node().next(step.with),
    previous: () => node().previous(step.with),
    ownValue: () => node().ownValue,
    layOver: () => node().layOver(step.with),
    patch: () => node().patch(step.with),
    merge: () => node().merge(store.node(...step.from)),
    increment: () => node().increment(step.with),
    snapshot: () => store.snapshot(() => step.steps.forEach((inner) => take(store, inner))),
    defineIndex: () => store.defineIndex({ name: step.index, records: node(), fields: step.fields, unique: step.unique }),
    dropIndex: () => store.dropIndex(step.index),
    query: () => Array.from(store.query(step.index, step.range), (record) => record.key),
    transaction: () => {
      const inner = () =>
        store.transaction(() => {
          step.steps.forEach((each) => take(store, each));
          if (step.throws) throw new Thrown();
        });
      if (step.throws) assert.throws(inner, Thrown);
      else inner();
    },
  }[step.do];
  if (step.fails !== undefined) assert.throws(doing, { code: step.fails }, JSON.stringify(step));
  else assert.deepEqual(doing() ?? null, step.gives ?? null, JSON.stringify(step));
}
