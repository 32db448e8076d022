/** The program of a worker thread. */
import { workerData } from 'node:worker_threads';
import { ownBytes, type ThreadData } from '../pool/thread.js';
import { enableReplyTransfer, unpack, type TransferFrame } from '../transfer.js';
import type { Bytes } from '../wire.js';
import { serveFrames } from './framed.js';
import { loadHandlers } from './lifecycle.js';
import type { Link, LinkEvents } from './link.js';
import { Page } from './page.js';

const { generation, page: memory, port } = workerData as ThreadData;
process.stderr.write = ((text: string | Uint8Array, ...rest: unknown[]) => {
  port.postMessage(typeof text === 'string' ? text : Buffer.from(text).toString());
  const done = rest.at(-1);
  if (typeof done === 'function') process.nextTick(done);
  return true;
}) as typeof process.stderr.write;

enableReplyTransfer();
const page = new Page(memory, () => port.postMessage(null), generation);

function openPort(events: LinkEvents): Link {
  let partial: Bytes | null = null;
  port.on('message', (message: Uint8Array | TransferFrame) => {
    const received = message instanceof Uint8Array ? message : unpack(message);
    let bytes = Buffer.from(received.buffer, received.byteOffset, received.byteLength) as Bytes;
    if (partial !== null) bytes = Buffer.concat([partial, bytes]) as Bytes;
    const rest = events.frames(bytes, 0, bytes.length);
    partial = rest < bytes.length ? (bytes.subarray(rest) as Bytes) : null;
  });
  port.on('close', () => events.closed());
  return {
    // Always 0, because posting a message copies it.
    backlog: 0,
    write(bytes) {
      const copy = ownBytes(bytes);
      port.postMessage(copy, [copy.buffer]);
    },
    postTransfer: (bytes, transfer) => transfer.post(port, ownBytes(bytes)),
  };
}

await serveFrames({ generation, page }, openPort, loadHandlers);
