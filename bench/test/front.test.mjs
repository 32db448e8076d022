import assert from 'node:assert/strict';
import test from 'node:test';
import { parseH2load, parseHandshakes } from '../suites/front.mjs';

const HANDSHAKES = `Collecting connection statistics for 2 seconds
****

2552 connections in 0.91s; 2804.40 connections/user sec, bytes read 0
2552 connections in 3 real seconds, 0 bytes read per connection
`;

test('the handshakes of openssl s_time are those of its wall-clock time', () => {
  assert.equal(parseHandshakes(HANDSHAKES), 2552);
  assert.throws(() => parseHandshakes(HANDSHAKES.replace('real', 'unreal')), /printed no number of connections/);
});

const H2LOAD = `TLS Protocol: TLSv1.3
Cipher: TLS_AES_128_GCM_SHA256
Application protocol: h2

finished in 1.01s, 42948.00 req/s, 3.64MB/s
requests: 42948 total, 43748 started, 42948 done, 42948 succeeded, 0 failed, 0 errored, 0 timeout
status codes: 42948 2xx, 0 3xx, 0 4xx, 0 5xx
`;

test('h2load: a clean run has its figures and no errors', () => {
  assert.deepEqual(parseH2load(H2LOAD), { requests: 42948, requests_per_s: 42948, errors: { failed: 0, status: 0 } });
});

test('h2load: failed requests and statuses other than 2xx are errors', () => {
  const broken = H2LOAD.replace('0 failed', '7 failed').replace('0 3xx, 0 4xx, 0 5xx', '1 3xx, 2 4xx, 3 5xx');
  assert.deepEqual(parseH2load(broken).errors, { failed: 7, status: 6 });
});

test('h2load: a missing figure is an error, not a zero, and so is HTTP/1.1', () => {
  for (const line of ['requests: ', 'status codes: ', 'finished in ']) {
    assert.throws(() => parseH2load(H2LOAD.replace(line, 'x')), /h2load printed no/, line);
  }
  assert.throws(() => parseH2load(H2LOAD.replace('h2\n', 'http/1.1\n')), /printed no HTTP\/2/);
});
