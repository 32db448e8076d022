import { readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { forebay, launchForebay, prepare } from '../forebay.mjs';
import { get } from '../http.mjs';
import { Connection } from '../openloop/connection.mjs';
import { rss_bytes } from '../proc.mjs';
import { stop } from '../processes.mjs';
import { atMost, row } from '../rows.mjs';

/** Connections of a crowd. */
export const CONNECTIONS = 10_000;
const OPENING_AT_ONCE = 100;
const STARTS = 10;
const RETRY_MS = 1;
const FIRST_ANSWER_MAX_MS = 15_000;
const MB = 1e6;

/** Memory of an idle server, and the time from the start to the first response. */
export const idle = {
  name: 'idle',
  title: 'idle memory and time to the first answer',
  needsForebay: true,
  async run(context) {
    const alone = [];
    for (let number = 0; number < context.repeats; number += 1) alone.push(await idleRss(context));
    const crowded = await crowdedRss(context);
    const local = await firstAnswers(context, '/local', {});
    const node = await firstAnswers(context, '/helloworld', { pool: { runtime: 'node', workers: 1 } });
    return {
      rows: [
        row({ what: 'RSS, idle, no workers', unit: 'MB', bar: atMost(25), samples: alone }),
        row({ what: `RSS with ${CONNECTIONS} idle connections`, unit: 'MB', bar: atMost(200), samples: crowded.samples, of: 1, notes: crowded.notes }),
        row({ what: 'start to first answer of /local', unit: 'ms', bar: atMost(50), samples: local }),
        row({ what: 'start to first answer of a Node route', unit: 'ms', bar: atMost(400), samples: node }),
      ],
    };
  },
};

/** Memory in megabytes of a server without pools, after its first response. */
async function idleRss(context) {
  const server = await forebay(context.binary, 'Forebay, idle').start(context.folder);
  try {
    await get(`${server.url}/local`);
    return rss_bytes(server.process.pid) / MB;
  } finally {
    await stop(server.process);
  }
}

/**
 * Memory in megabytes with `CONNECTIONS` open keep-alive connections, each of which has had one response, as `{samples, notes}`: one sample,
 * or none and the reason. With `tls`, `{cert, key}`, they speak TLS.
 */
export async function crowdedRss(context, tls) {
  const [, openFiles_max] = /^Max open files\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'));
  if (Number(openFiles_max) < CONNECTIONS + 200) {
    return { samples: [], notes: [`not measured: the limit of open files is ${openFiles_max} (ulimit -n)`] };
  }
  context.progress(`${CONNECTIONS} idle connections`);
  const side = forebay(context.binary, 'Forebay, idle', { connections_max: CONNECTIONS + 100, tls });
  const server = await side.start(context.folder);
  const crowd = new Crowd(Number(new URL(server.url).port), tls !== undefined);
  try {
    await crowd.gather();
    const megabytes = rss_bytes(server.process.pid) / MB;
    if (crowd.lost > 0) return { samples: [], notes: [`${crowd.lost} connections were lost`] };
    return { samples: [megabytes], notes: [] };
  } finally {
    crowd.disperse();
    await stop(server.process);
  }
}

/** Many idle connections to one port. */
class Crowd {
  lost = 0;
  #connections = [];
  #port;
  #secure;

  constructor(port, secure) {
    this.#port = port;
    this.#secure = secure;
  }

  /** Opens all connections, a hundred at a time, and waits until each has had its response. */
  async gather() {
    const opener = async () => {
      while (this.#connections.length < CONNECTIONS) await this.#join();
    };
    await Promise.all(Array.from({ length: OPENING_AT_ONCE }, opener));
  }

  #join() {
    return new Promise((resolve, reject) => {
      const connection = new Connection(this.#port, {
        secure: this.#secure,
        onAnswer: ({ status }) => (status === 200 ? resolve() : reject(new Error(`/local answered ${status}`))),
        onGone: () => {
          this.lost += 1;
          resolve();
        },
      });
      this.#connections.push(connection);
      connection.send('GET /local HTTP/1.1\r\nhost: bench\r\n\r\n');
    });
  }

  disperse() {
    for (const connection of this.#connections) connection.close();
  }
}

/** Milliseconds from just before the process is created to the last byte of its first 200 response, for each of `STARTS` starts. */
async function firstAnswers(context, path, options) {
  const samples = [];
  for (let number = 0; number < STARTS; number += 1) {
    context.progress(`first answer of ${path}, start ${number + 1} of ${STARTS}`);
    const prepared = await prepare(context.folder, options);
    const began = performance.now();
    const process_ = launchForebay(context.binary, prepared);
    try {
      while (!(await tryOnce(prepared.port, path))) {
        if (process_.end) throw process_.failure('ended before its first answer');
        if (performance.now() - began > FIRST_ANSWER_MAX_MS) throw process_.failure(`gave no answer to ${path}`);
        await delay(RETRY_MS);
      }
      samples.push(performance.now() - began);
    } finally {
      await stop(process_);
    }
  }
  return samples;
}

/** Sends one request on one connection; resolves to whether the response was 200. */
function tryOnce(port, path) {
  return new Promise((resolve) => {
    const connection = new Connection(port, {
      onAnswer: ({ status }) => {
        resolve(status === 200);
        connection.close();
      },
      onGone: () => resolve(false),
    });
    connection.send(`GET ${path} HTTP/1.1\r\nhost: bench\r\n\r\n`);
  });
}
