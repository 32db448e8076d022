import assert from 'node:assert/strict';
import test from 'node:test';
import { parseTime_us, parseWrk } from '../wrk.mjs';

const CLEAN = `Running 2s test @ http://127.0.0.1:8080/local
  1 threads and 64 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   536.36us  100.52us   3.50ms   92.31%
    Req/Sec   118.61k     4.54k  126.72k    70.97%
  Latency Distribution
     50%  521.00us
     75%  577.00us
     90%  640.00us
     99%    1.02ms
  247765 requests in 2.10s, 39.93MB read
Requests/sec: 118012.24
Transfer/sec:     19.02MB
`;

test('a clean run has its figures in microseconds and no errors', () => {
  assert.deepEqual(parseWrk(CLEAN), {
    requests: 247765,
    seconds: 2.1,
    requests_per_s: 118012.24,
    p50_us: 521,
    p99_us: 1020,
    errors: { connect: 0, read: 0, write: 0, timeout: 0, status: 0 },
  });
});

test('errors are counted by cause', () => {
  const broken = CLEAN.replace(
    'Requests/sec',
    '  Socket errors: connect 1, read 2, write 3, timeout 4\n  Non-2xx or 3xx responses: 5\nRequests/sec',
  );
  assert.deepEqual(parseWrk(broken).errors, { connect: 1, read: 2, write: 3, timeout: 4, status: 5 });
});

test('every unit that wrk prints is read', () => {
  const read = ['843.00us', '1.21ms', '2.01s', '1.50m', '1.00h'].map(parseTime_us);
  assert.deepEqual(read, [843, 1210, 2010000, 90e6, 3600e6]);
  assert.throws(() => parseTime_us('12'), /not one/);
});

test('output without a figure is an error, not a zero', () => {
  assert.throws(() => parseWrk(CLEAN.replace(/^ +99%.*\n/m, '')), /p99/);
  assert.throws(() => parseWrk('unable to connect to 127.0.0.1:1 Connection refused\n'), /number of requests/);
});
