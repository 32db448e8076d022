import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { parseGtm } from '../peers/gtm.mjs';
import { encode, readReplies } from '../peers/resp.mjs';

test('Redis: a command is its words with their lengths', () => {
  assert.equal(encode('GET', 'a key'), '*2\r\n$3\r\nGET\r\n$5\r\na key\r\n');
});

test('Redis: replies are read wherever what has arrived ends', () => {
  const replies = '+OK\r\n$5\r\na\r\nbc\r\n$-1\r\n$0\r\n\r\n';
  assert.deepEqual(readReplies(replies), { replies: ['OK', 'a\r\nbc', null, ''], rest: '' });
  for (let at = 0; at <= replies.length; at++) {
    const first = readReplies(replies.slice(0, at));
    const second = readReplies(first.rest + replies.slice(at));
    assert.deepEqual([...first.replies, ...second.replies], ['OK', 'a\r\nbc', null, ''], `in two at ${at}`);
  }
});

test('Redis: an error is one here too', () => {
  assert.throws(() => readReplies('+OK\r\n-ERR unknown command\r\n'), /Redis answered -ERR unknown command/);
});

const GTM = 'set 300000 213372 21\nget 300000 189709 19\nwalk 300000 44602 4\nsetdoc 300000 954610 95\ngetdoc 300000 742383 74\n';

test('GT.M: each operation has its seconds of wall clock and CPU', () => {
  const results = parseGtm(GTM);
  assert.deepEqual(Object.keys(results), ['set', 'get', 'walk', 'set document', 'get document']);
  assert.deepEqual(results.set, { operations: 300000, seconds: 0.213372, cpu_seconds: 0.21 });
});

test('GT.M: an error in the middle is one here too, whatever its exit code', () => {
  assert.throws(() => parseGtm(GTM.replace(/^walk.*/m, '%GTM-E-SETECODE, Non-empty value assigned to $ECODE')), /printed no result but/);
  assert.throws(() => parseGtm(GTM.split('walk')[0]), /printed nothing about walk, set document, get document/);
});

test('the benchmark of pools names the versions of its peers that are pinned here', async () => {
  const { PINNED } = await import('../../sdk/node/dist/pool/benchmark/packages.js');
  const { dependencies } = JSON.parse(readFileSync(new URL('../peers/package.json', import.meta.url), 'utf8'));
  for (const [name, version] of Object.entries(PINNED)) assert.equal(dependencies[name], version, name);
});
