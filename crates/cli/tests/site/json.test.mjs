// The page's JSON: exact, and errors with their place.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Exact, JsonError, parse, same, stringify } from '../../scaffold/records/public/site/json.mjs';

test('what is read and written again is what it was, to the last digit', () => {
  for (const text of ['null', 'true', 'false', '0', '-0', '1.0', '1.50', '1e400', '-1E-7', '18446744073709551615', '9007199254740993', '""', '"a\\"b\\\\c\\n\\u0007"', '"\u2028é😀"', '[]', '{}', '[[],{},[1,2.0]]', '{"a":{"b":[null]},"__proto__":1}']) {
    assert.equal(stringify(parse(text)), text);
  }
  assert.equal(stringify(parse('{"b":[1,{}],"a":[]}'), 2), '{\n  "b": [\n    1,\n    {}\n  ],\n  "a": []\n}');
  assert.equal(parse('"\\u00e9\\/\\ud83d\\ude00"'), 'é/😀');
  assert.equal(parse(' [ 1 , 2 ] ').length, 2);
  assert.deepEqual(Object.keys(parse('{"a":1,"a":2}')), ['a']);
  assert.equal(parse('{"a":1,"a":2}').a.text, '2');
});

test('it reads and refuses what JSON.parse reads and refuses', () => {
  const texts = ['', ' ', '{', '[', '"', '{"a"', '{"a":', '{"a":1,', '{"a":1,}', '[1,]', '[,]', '01', '+1', '1.', '.1', '1e', '-', 'nul', 'nullx', 'True', "'a'", '"\n"', '"\\x"', '"\\u12"', '{a:1}', '1 2', '[1 2]', '{"a" 1}', '\u00a01', '\ufeff1', '//', '[1]]', '"\u007f"', '"\\ud800"', '1E+2', '[-0.0e-0]'];
  for (const text of texts) {
    let expected;
    try {
      expected = JSON.stringify(JSON.parse(text));
    } catch {
      expected = undefined;
    }
    let found;
    try {
      found = JSON.stringify(JSON.parse(stringify(parse(text))));
    } catch (error) {
      assert.ok(error instanceof JsonError, `${text}: ${error}`);
      found = undefined;
    }
    assert.equal(found, expected, JSON.stringify(text));
  }
});

test('an error says its line and its column', () => {
  const place = (text) => {
    try {
      parse(text);
    } catch ({ line, column, message }) {
      return [line, column, message];
    }
    return undefined;
  };
  assert.deepEqual(place('{\n "a": tru\n}').slice(0, 2), [2, 7]);
  assert.deepEqual(place('["a').slice(0, 2), [1, 2]);
  assert.deepEqual(place('["a\nb"]').slice(0, 2), [1, 4]);
  assert.match(place('[1,😀]')[2], /a value is expected, not "😀", in line 1, column 4/);
  assert.match(place(`${'['.repeat(600)}`)[2], /nested more than 500 deep/);
});

test('values are the same whatever the order of members, and numbers only as they are written', () => {
  assert.ok(same(parse('{"a":1,"b":[{"c":2,"d":3}]}'), parse('{"b":[{"d":3,"c":2}],"a":1}')));
  assert.ok(!same(parse('[1,2]'), parse('[2,1]')));
  assert.ok(!same(new Exact('1'), new Exact('1.0')));
  assert.ok(!same(new Exact('1'), '1'));
  assert.ok(!same(undefined, null));
  assert.ok(same(undefined, undefined));
});
