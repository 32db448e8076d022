// Runs ab, the load generator of the Apache HTTP server (Debian package `apache2-utils`), which Rengine's benchmark uses, and parses its
// output.

import { runToEnd } from './processes.mjs';

/**
 * The result of one run of `ab`. `errors` counts by cause: `length` are responses with another length than the first, which is how ab
 * detects different content. Throws if a figure is missing.
 */
export function parseAb(output) {
  const find = (what, pattern) => {
    const match = pattern.exec(output);
    if (!match) throw new Error(`ab printed no ${what}:\n${output}`);
    return Number(match[1]);
  };
  const failed = find('number of failed requests', /^Failed requests:\s+(\d+)/m);
  const causes = /\(Connect: (\d+), Receive: (\d+), Length: (\d+), Exceptions: (\d+)\)/.exec(output);
  const [connect, receive, length, exceptions] = causes ? causes.slice(1).map(Number) : [0, 0, 0, 0];
  if (failed > 0 && !causes) throw new Error(`ab printed no causes:\n${output}`);
  const status = /^Non-2xx responses:\s+(\d+)/m.exec(output);
  return {
    requests: find('number of requests', /^Complete requests:\s+(\d+)/m),
    seconds: find('time', /^Time taken for tests:\s+([\d.]+)/m),
    requests_per_s: find('rate', /^Requests per second:\s+([\d.]+)/m),
    p50_us: find('median', /^\s+50%\s+(\d+)/m) * 1e3,
    p99_us: find('p99', /^\s+99%\s+(\d+)/m) * 1e3,
    length: find('length', /^Document Length:\s+(\d+)/m),
    errors: { connect, receive, length, exceptions, status: status ? Number(status[1]) : 0 },
  };
}

/** POSTs the JSON in `file` `requests` times over `connections` connections, which stay open with `keepAlive`. */
export async function runAb(url, { requests, connections, file, keepAlive }) {
  const args = ['-q', '-r', '-s', '60', '-n', String(requests), '-c', String(connections), '-p', file, '-T', 'application/json'];
  return parseAb(await runToEnd('ab', 'ab', [...args, ...(keepAlive ? ['-k'] : []), url]));
}
