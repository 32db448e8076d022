// Jobs for other pools. A durable route takes them, over the server's own Unix socket.
import { request } from 'node:http';

/** Stores a job; resolves when it is on disk. The same key with the same body is the same job. */
export const enqueue = (path, body, { key, delay }) =>
  new Promise((resolve, reject) => {
    const headers = { host: 'localhost', 'content-type': 'application/json', 'idempotency-key': key, 'forebay-delay': delay };
    const sent = request({ socketPath: process.env.SERVER_SOCKET, method: 'POST', path, headers }, (response) => {
      response.resume();
      if (response.statusCode === 202) resolve();
      else reject(new Error(`${path} answered ${response.statusCode}`));
    });
    sent.on('error', reject);
    sent.end(JSON.stringify(body));
  });
