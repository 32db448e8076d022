// Single HTTP requests of the bench: checks before a run, readiness, ports. Load comes from wrk.mjs and openloop.mjs.

import http from 'node:http';
import net from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

const RETRY_MS = 1;
const ANSWER_TIMEOUT_MS = 5000;

/** One GET on a connection of its own: `{status, headers, body}` with the body as text. */
export function get(url) {
  return send('GET', url);
}

/** One request on a connection of its own, with a text as body, JSON unless `type` says otherwise, or none; the answer as `get` has it. */
export function send(method, url, text, type = 'application/json') {
  return new Promise((resolve, reject) => {
    const headers = text === undefined ? {} : { 'content-type': type, 'content-length': Buffer.byteLength(text) };
    const request = http.request(url, { method, headers, agent: false, timeout: ANSWER_TIMEOUT_MS }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (part) => {
        body += part;
      });
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, body }));
      response.on('error', reject);
    });
    request.on('timeout', () => request.destroy(new Error(`${url} gave no answer within ${ANSWER_TIMEOUT_MS} ms`)));
    request.on('error', reject);
    request.end(text);
  });
}

/** Asks again and again until the answer has status 200, and returns it. Fails when `process_` ends or time is over. */
export async function getWhenReady(url, process_, { timeout_ms = 15_000 } = {}) {
  const deadline = performance.now() + timeout_ms;
  for (let last = 'no answer'; ; ) {
    try {
      const answer = await get(url);
      if (answer.status === 200) return answer;
      last = `status ${answer.status}: ${answer.body.slice(0, 300)}`;
    } catch (error) {
      last = error.message;
    }
    if (process_.end) throw process_.failure('ended before it answered');
    if (performance.now() > deadline) throw process_.failure(`did not answer ${url} with 200 within ${timeout_ms} ms, but: ${last}`);
    await delay(RETRY_MS);
  }
}

/** A TCP port of 127.0.0.1 that was free a moment ago, for programs that cannot choose one themselves. */
export function freePort() {
  return new Promise((resolve, reject) => {
    const server = net.createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}
