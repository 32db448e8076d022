// Runs wrk, the closed-loop load generator (Debian package `wrk`), and parses its output.

import { fileURLToPath } from 'node:url';
import { runToEnd } from './processes.mjs';

const postScript = fileURLToPath(new URL('post.lua', import.meta.url));

const MICROSECONDS = { us: 1, ms: 1e3, s: 1e6, m: 60e6, h: 3600e6 };

/** Parses a time in wrk's format, `843.00us`, `1.21ms`, `2.01s` or `1.50m`, to microseconds. */
export function parseTime_us(text) {
  const match = /^([\d.]+)(us|ms|s|m|h)$/.exec(text);
  if (!match) throw new Error(`wrk printed a time that is not one: "${text}"`);
  return Math.round(Number(match[1]) * MICROSECONDS[match[2]] * 1000) / 1000; // rounded to nanoseconds, without floating-point noise
}

/**
 * The result of one run of `wrk --latency`. `errors` counts by cause: `connect`, `read`, `write`, `timeout` (socket errors) and
 * `status` (responses other than 2xx and 3xx). Throws if a figure is missing: a partly read run must not become a result.
 */
export function parseWrk(output) {
  const find = (what, pattern) => {
    const match = pattern.exec(output);
    if (!match) throw new Error(`wrk printed no ${what}:\n${output}`);
    return match;
  };
  const [, requests, elapsed] = find('number of requests', /^\s*(\d+) requests in ([\d.]+\w+),/m);
  const sockets = /Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)/.exec(output);
  const status = /Non-2xx or 3xx responses: (\d+)/.exec(output);
  const [connect, read, write, timeout] = sockets ? sockets.slice(1).map(Number) : [0, 0, 0, 0];
  return {
    requests: Number(requests),
    seconds: parseTime_us(elapsed) / 1e6,
    requests_per_s: Number(find('rate', /^Requests\/sec:\s+([\d.]+)/m)[1]),
    p50_us: parseTime_us(find('median latency', /^\s+50%\s+(\S+)/m)[1]),
    p99_us: parseTime_us(find('p99 latency', /^\s+99%\s+(\S+)/m)[1]),
    errors: { connect, read, write, timeout, status: status ? Number(status[1]) : 0 },
  };
}

/** Loads `url` for `seconds` over keep-alive connections from one thread of wrk, with GET, or with POST of the JSON `post`; `header` is a line. */
export async function runWrk(url, { connections, seconds, post, header }) {
  const script = post === undefined ? [url] : ['-s', postScript, url, '--', post];
  const headers = header === undefined ? [] : ['-H', header];
  const args = ['--latency', '-t', '1', '-c', String(connections), '-d', `${seconds}s`, ...headers, ...script];
  return parseWrk(await runToEnd('wrk', 'wrk', args));
}
