import assert from 'node:assert/strict';
import test from 'node:test';
import { parseAb } from '../ab.mjs';

const OUTPUT = `
Document Path:          /execute/internal/workflow
Document Length:        692 bytes

Concurrency Level:      200
Time taken for tests:   5.221 seconds
Complete requests:      1500
Failed requests:        3
   (Connect: 0, Receive: 1, Length: 2, Exceptions: 0)
Non-2xx responses:      2
Total transferred:      1200000 bytes
Requests per second:    287.29 [#/sec] (mean)

Percentage of the requests served within a certain time (ms)
  50%    690
  66%    701
  99%    887
 100%    901 (longest request)
`;

test('what ab prints is read, with the failures by their causes', () => {
  assert.deepEqual(parseAb(OUTPUT), {
    requests: 1500,
    seconds: 5.221,
    requests_per_s: 287.29,
    p50_us: 690_000,
    p99_us: 887_000,
    length: 692,
    errors: { connect: 0, receive: 1, length: 2, exceptions: 0, status: 2 },
  });
  const clean = parseAb(OUTPUT.replace(/Failed requests.*\n.*\nNon-2xx.*\n/, 'Failed requests:        0\n'));
  assert.deepEqual(clean.errors, { connect: 0, receive: 0, length: 0, exceptions: 0, status: 0 });
});

test('a run that is not told whole is no result', () => {
  assert.throws(() => parseAb(OUTPUT.replace(/Requests per second.*/, '')), /no rate/);
  assert.throws(() => parseAb(OUTPUT.replace(/ +\(Connect.*\n/, '')), /no causes/);
});
