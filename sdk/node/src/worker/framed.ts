/** A worker that speaks frames: shakes hands, loads the handler and serves requests. */
import type { WorkerContext, WorkerInfo } from '../context.js';
import type { LoadedHandler } from '../handler.js';
import { decode } from '../message.js';
import { VERSION } from '../version.js';
import { FAILED, HELLO, PROTOCOL, READY, frame, type Bytes } from '../wire.js';
import { openCalls } from './calls.js';
import { Engine, type Init } from './engine.js';
import { environment, handleSignals, start } from './lifecycle.js';
import type { Link, LinkEvents } from './link.js';
import { Page } from './page.js';

/** The worker's generation in its pool, and the page that it shares with its server or pool. */
export interface WorkerSetup {
  readonly generation: number;
  readonly page: Page | null;
}

/** Reads generation and page from the environment. */
export function setupOfProcess(): WorkerSetup {
  const generation = Number(environment('FOREBAY_GENERATION'));
  return { generation, page: Page.open(process.env['FOREBAY_PAGE_FD'], process.env['FOREBAY_BELL_FD'], generation) };
}

/** Serves over the link made by `open`. After INIT has arrived and `prepared` has resolved, `load` loads the handler. */
export async function serveFrames(
  { generation, page }: WorkerSetup,
  open: (events: LinkEvents) => Link | Promise<Link>,
  load: (init: Init) => Promise<LoadedHandler>,
  prepared: Promise<void> = Promise.resolve(),
): Promise<void> {
  const engine = new Engine(generation, page, (init) => void begin(init), (status) => process.exit(status));
  engine.link = await open(engine);
  engine.link.write(frame(HELLO, 0, generation, 0, 0, JSON.stringify(hello(page !== null))));
  handleSignals(() => engine.drain());

  async function begin(init: Init): Promise<void> {
    const worker: WorkerInfo = { id: init.worker, pool: init.pool, pid: process.pid, ...dataOf(init) };
    const context: WorkerContext = { state: Object.create(null), worker, log: engine.logOf(null) };
    engine.calls = openCalls(init, generation, (bytes) => engine.link.write(bytes));
    try {
      await prepared;
      const { handle, waits, stop } = await start(init.start, () => load(init), context);
      const concurrency = Math.max(init.concurrency, waits ? (init.concurrency_max ?? 0) : 0);
      engine.serve({ ...init, concurrency }, context, handle, stop);
      engine.link.write(frame(READY, 0, generation, 0, 0, concurrency > init.concurrency ? JSON.stringify({ concurrency }) : ''));
    } catch (error) {
      engine.link.write(frame(FAILED, 0, generation, 0, 0, JSON.stringify(failureOf(error))));
      engine.endWhenSent(1);
    }
  }
}

/** The content of FAILED. */
function failureOf(error: unknown): { message: string; stack: string | undefined } {
  const { name, message, stack } = error instanceof Error ? error : new Error(String(error));
  const position = (error as { position?: { file: string; line: number; column: number } | null } | null | undefined)?.position;
  const kind = position ? 'SyntaxError' : name;
  return {
    message: /.Error$/.test(kind) ? `${kind}: ${message}` : message,
    // Bun tells the position of invalid syntax apart from the stack.
    stack: position ? `    at ${position.file}:${position.line}:${position.column}` : stack,
  };
}

function dataOf({ data }: Init): { data?: unknown } {
  if (data === undefined) return {};
  const bytes = Buffer.from(data, 'base64') as Bytes;
  return { data: decode(bytes, 0, bytes.length) };
}

function hello(page: boolean): object {
  const bun = process.versions['bun'];
  const runtime = bun === undefined ? `node/${process.versions.node}` : `bun/${bun}`;
  return { protocol: PROTOCOL, sdk: `forebay-node/${VERSION}`, runtime, pid: process.pid, page, profile: bun === undefined, connection: true, identity: true };
}
