/** A worker thread: frames and the bell on a message port, the page in shared memory. */
import { MessageChannel, Worker, receiveMessageOnPort } from 'node:worker_threads';
import { unpack, type TransferFrame } from '../transfer.js';
import type { Bytes } from '../wire.js';
import { Lines, type Host, type HostEvents } from './host.js';
import type { Settings } from './options.js';
import { SharedPage, pageMemory } from './page.js';

/** The `workerData` of a worker thread. */
export interface ThreadData {
  readonly generation: number;
  readonly page: SharedArrayBuffer;
  readonly port: MessagePort;
}

type MessagePort = InstanceType<typeof MessageChannel>['port1'];

/** Starts a worker thread. */
export function startThread(settings: Settings, generation: number, events: HostEvents): Host {
  const memory = pageMemory();
  const page = new SharedPage(memory);
  const { port1: link, port2: port } = new MessageChannel();
  const workerData: ThreadData = { generation, page: memory, port };
  const worker = new Worker(new URL('../worker/thread.js', import.meta.url), {
    workerData,
    transferList: [port],
    env: Object.fromEntries(Object.entries(settings.env).filter(([, value]) => value !== undefined)) as NodeJS.ProcessEnv,
    argv: [...settings.argv],
    execArgv: [...settings.execArgv],
    ...(settings.resourceLimits === null ? {} : { resourceLimits: settings.resourceLimits }),
  });
  const lines = new Lines((text) => events.line(text));
  /**
   * Receives frames, with or without a value, the bell (null), or text for standard error, whose own stream would keep the program alive.
   */
  function received(message: Uint8Array | TransferFrame | string | null): void {
    if (message === null) {
      events.rung();
    } else if (typeof message === 'string') {
      lines.push(message);
    } else {
      const bytes = message instanceof Uint8Array ? message : unpack(message);
      events.received(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength) as Bytes);
    }
  }
  link.on('message', received);
  let isOver = false;
  let ending: Promise<number> | undefined;
  function finish(exitCode: number | null): void {
    if (isOver) return;
    isOver = true;
    lines.end();
    for (let last; (last = receiveMessageOnPort(link)) !== undefined; ) received(last.message as Uint8Array | TransferFrame | string | null);
    link.close();
    events.ended(exitCode, null);
  }
  worker.once('error', (error: Error) => lines.push(`${error.stack ?? String(error)}\n`));
  // The last output to standard error may arrive after `exit`.
  worker.once('exit', (exitCode) => void setImmediate(finish, exitCode));
  worker.unref();
  link.unref();
  return {
    pid: null,
    threadId: worker.threadId,
    page,
    write(bytes) {
      const copy = ownBytes(bytes);
      link.postMessage(copy, [copy.buffer]);
    },
    postTransfer: (bytes, transfer) => transfer.post(link, bytes),
    terminate: () => {},
    kill() {
      ending ??= worker.terminate();
    },
    rss: () => null,
  };
}

/** A copy that can be transferred; posting a view would clone its whole buffer. */
export function ownBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  return Uint8Array.prototype.slice.call(bytes) as Uint8Array<ArrayBuffer>;
}
