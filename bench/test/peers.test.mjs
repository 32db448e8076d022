import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';
import { parseGtm } from '../peers/gtm.mjs';
import { parsePgbench, parsePgbenchLog } from '../peers/postgres.mjs';
import { parseRedisBenchmark } from '../peers/redis.mjs';
import { encode, readReplies } from '../peers/resp.mjs';

const PGBENCH = `pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: insert.sql
scaling factor: 1
query mode: prepared
number of clients: 4
number of threads: 2
maximum number of tries: 1
duration: 1 s
number of transactions actually processed: 767
number of failed transactions: 3 (0.391%)
latency average = 5.171 ms
initial connection time = 21.500 ms
tps = 773.557446 (without initial connection time)
`;

test('pgbench: transactions, their rate without connecting, and failures', () => {
  assert.deepEqual(parsePgbench(PGBENCH), { requests: 767, requests_per_s: 773.557446, failed: 3 });
});

test('pgbench: a run whose clients were aborted has no rate, and is an error', () => {
  assert.throws(() => parsePgbench(PGBENCH.replace(/^tps.*\n/m, '')), /printed no rate/);
});

test('pgbench: a log is the latencies of its transactions, and an empty one has none', () => {
  assert.deepEqual(parsePgbenchLog('1 7 8106 0 1795328417 175030\n0 72 356 0 1795328417 606930\n'), [8106, 356]);
  assert.deepEqual(parsePgbenchLog(''), []);
  assert.throws(() => parsePgbenchLog('1 7 failed 0 1795328417 175030\n'), /not a line of pgbench's log/);
});

const REDIS = `"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
"SET","30487.80","1.478","0.080","0.935","5.455","7.503","10.431"
`;

test('redis-benchmark: rate and latencies in microseconds, found by the names of the columns', () => {
  assert.deepEqual(parseRedisBenchmark(REDIS), { requests_per_s: 30487.8, p50_us: 935, p99_us: 7503 });
});

test('redis-benchmark: output without a result or a column is an error', () => {
  assert.throws(() => parseRedisBenchmark(REDIS.split('\n', 1)[0]), /printed no rps/);
  assert.throws(() => parseRedisBenchmark(REDIS.replace('p99_latency_ms', 'p999_latency_ms')), /printed no p99_latency_ms/);
});

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
