import assert from 'node:assert/strict';
import http from 'node:http';
import test from 'node:test';
import { AnswerReader } from '../openloop/connection.mjs';
import { generate } from '../openloop/generator.mjs';

test('an answer that arrives in pieces is complete only with its last byte', () => {
  const reader = new AnswerReader();
  const text = 'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 4\r\nRetry-After: 1\r\n\r\nbusy';
  for (const byte of text.slice(0, -1)) assert.equal(reader.push(Buffer.from(byte)), null);
  assert.deepEqual(reader.push(Buffer.from(text.at(-1))), { status: 503, retryAfter: true, close: false });
  assert.deepEqual(reader.push(Buffer.from('HTTP/1.1 200 OK\r\ncontent-length:0\r\nConnection: close\r\n\r\n')), {
    status: 200,
    retryAfter: false,
    close: true,
  });
});

test('bytes beyond an answer and answers without a length are refused', () => {
  assert.throws(() => new AnswerReader().push(Buffer.from('HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab')), /more bytes/);
  assert.throws(() => new AnswerReader().push(Buffer.from('HTTP/1.1 200 OK\r\n\r\n')), /Content-Length/);
});

/** Serves `answer(request, response)` on a free port while `use(port)` runs. */
async function serving(answer, use) {
  const server = http.createServer(answer);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    return await use(server.address().port);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

/** The flag about failed requests; on a busy machine there may be another about a late generator. */
const failures = (flags) => flags.find((flag) => flag.includes('failed'));

const plan = { warmup_s: 0, seconds: 1, connections: 2, connections_max: 2, streams: [{ name: 'all', path: '/', rate: 500 }] };

test('a stall of the server is charged to every request that was due in it', async () => {
  // The server holds back all responses during its first 500 ms. Two connections cannot carry what falls due
  // meanwhile, so a generator that counted from the sending would see two slow requests; half of all were due in the stall.
  let open = null;
  const answer = (request, response) => {
    open ??= new Promise((resolve) => setTimeout(resolve, 500));
    open.then(() => response.end('ok'));
  };
  const { streams, waiting_max } = await serving(answer, (port) => generate({ ...plan, port }));
  const latencies_ms = streams.all.answers[200];
  assert.equal(latencies_ms.count, 500);
  assert.ok(latencies_ms.p90 > 350, `p90 is ${latencies_ms.p90} ms`);
  assert.ok(latencies_ms.max >= 499, `max is ${latencies_ms.max} ms`);
  assert.ok(waiting_max > 200, `${waiting_max} waited`);
});

test('requests are counted by status, and refusals without Retry-After are seen', async () => {
  let number = 0;
  const answer = (request, response) => {
    number += 1;
    response.statusCode = number % 2 ? 200 : 503;
    if (number % 4 === 0) response.setHeader('retry-after', '1');
    response.end('x');
  };
  const { streams, flags } = await serving(answer, (port) => generate({ ...plan, port, connections: 1, connections_max: 1 }));
  assert.equal(streams.all.answers[200].count, 250);
  assert.equal(streams.all.answers[503].count, 250);
  assert.equal(streams.all.without_retry_after, 125);
  assert.equal(failures(flags), undefined);
});

test('a connection that the server cuts fails its request and is replaced', async () => {
  let number = 0;
  const answer = (request, response) => {
    number += 1;
    if (number === 100) request.socket.destroy();
    else response.end('ok');
  };
  const { streams, flags } = await serving(answer, (port) => generate({ ...plan, port }));
  assert.equal(streams.all.failed, 1);
  assert.equal(streams.all.answers[200].count, 499);
  assert.match(failures(flags), /^1 failed/);
});
