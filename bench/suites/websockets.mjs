import { connect } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { forebay } from '../forebay.mjs';
import { bun } from '../peers/installed.mjs';
import { startListening } from '../peers/listening.mjs';
import { rss_bytes, treeCpu_us, treeRss_bytes } from '../proc.mjs';
import { stop } from '../processes.mjs';
import { atMost, row } from '../rows.mjs';
import { percentile } from '../stats.mjs';

const SOCKETS = 5_000;
const OPENING_AT_ONCE = 100;
/** Each socket sends one message in this time, at a moment of its own. */
const PERIOD_MS = 1_000;
const MEASURED_MS = 8_000;
const SETTLE_MS = 1_000;
const KB = 1e3;
const MESSAGE_BYTES = 32;

const HANDLER = `
import { websocket } from 'forebay';
export default () => websocket({ message: (socket, message) => socket.send(message) });
`;

const peer = (name, command, file) => ({
  name,
  start: () => startListening(name, command, [new URL(`../peers/servers/${file}`, import.meta.url).pathname]),
});

/** Many WebSockets that are mostly silent, and get back what they send. */
export const websockets = {
  name: 'websockets',
  title: `${SOCKETS} WebSockets on one worker, each with one message a second that comes back`,
  needsForebay: true,
  async run(context) {
    const sides = [
      forebay(context.binary, 'Forebay with one Node worker', {
        connections_max: SOCKETS + 100,
        pool: { runtime: 'node', workers: 1, handler: 'websockets.mjs' },
        files: { 'websockets.mjs': HANDLER },
      }),
      peer('ws on Node', process.execPath, 'ws.mjs'),
      peer('Bun.serve, which has uWebSockets', bun, 'bun-websocket.mjs'),
    ];
    const results = sides.map(() => []);
    for (let round = 0; round < context.repeats; round += 1) {
      for (const [index, side] of sides.entries()) {
        context.progress(`${side.name}, round ${round + 1} of ${context.repeats}`);
        results[index].push(await measure(context, side));
      }
    }
    const rows = sides.flatMap(({ name }, index) => {
      const of = (metric) => results[index].map((result) => result[metric]);
      return [
        row({ what: `${name}: echo p99`, unit: 'ms', bar: index === 0 ? atMost(50) : null, samples: of('p99_ms') }),
        row({ what: `${name}: memory a connection, all processes`, unit: 'KB', samples: of('memory_kb') }),
        row({ what: `${name}: memory a connection, the server's process`, unit: 'KB', samples: of('server_memory_kb') }),
        row({ what: `${name}: CPU a message there and back`, unit: 'us', samples: of('cpu_us') }),
      ];
    });
    return { rows };
  },
};

async function measure(context, side) {
  const server = await side.start(context.folder);
  const clients = [];
  try {
    const { pid } = server.process;
    const port = Number(new URL(server.url).port);
    const before = { tree: treeRss_bytes(pid), server: rss_bytes(pid) };
    const opener = async () => {
      while (clients.length < SOCKETS) {
        const client = new EchoClient(port);
        clients.push(client);
        await client.opened;
      }
    };
    await Promise.all(Array.from({ length: OPENING_AT_ONCE }, opener));
    const latencies = [];
    for (const client of clients) client.begin(latencies);
    await delay(SETTLE_MS);
    latencies.length = 0;
    const cpu_us = treeCpu_us(pid);
    await delay(MEASURED_MS);
    const used_us = treeCpu_us(pid) - cpu_us;
    const measured = latencies.slice();
    const expected = (SOCKETS * MEASURED_MS) / PERIOD_MS;
    if (measured.length < expected * 0.98) throw new Error(`${side.name}: ${measured.length} of ${expected} messages came back`);
    return {
      p99_ms: percentile(measured, 0.99),
      memory_kb: (treeRss_bytes(pid) - before.tree) / SOCKETS / KB,
      server_memory_kb: (rss_bytes(pid) - before.server) / SOCKETS / KB,
      cpu_us: used_us / measured.length,
    };
  } finally {
    for (const client of clients) client.close();
    await stop(server.process);
  }
}

/** A WebSocket that sends short messages and takes the time until each is back. */
class EchoClient {
  #socket;
  #timer;
  #sent_at = 0;

  constructor(port) {
    this.opened = new Promise((resolve, reject) => {
      const socket = (this.#socket = connect(port, '127.0.0.1'));
      socket.setNoDelay(true);
      socket.once('error', reject);
      socket.once('data', (data) => (data.toString('latin1').startsWith('HTTP/1.1 101 ') ? resolve() : reject(new Error(`the handshake is answered with ${data}`))));
      socket.write(
        'GET / HTTP/1.1\r\nhost: bench\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n',
      );
    });
  }

  begin(latencies) {
    // A mask of zeros leaves the payload as it is.
    const frame = Buffer.concat([Buffer.from([0x81, 0x80 | MESSAGE_BYTES, 0, 0, 0, 0]), Buffer.alloc(MESSAGE_BYTES, 'x')]);
    let missing = 0;
    this.#socket.on('data', (data) => {
      missing -= data.length;
      if (missing <= 0) latencies.push(performance.now() - this.#sent_at);
    });
    const send = () => {
      missing = 2 + MESSAGE_BYTES;
      this.#sent_at = performance.now();
      this.#socket.write(frame);
    };
    this.#timer = setTimeout(() => {
      send();
      this.#timer = setInterval(send, PERIOD_MS);
    }, Math.random() * PERIOD_MS);
  }

  close() {
    clearInterval(this.#timer);
    this.#socket.on('error', () => {});
    this.#socket.destroy();
  }
}
