/**
 * QOper8's benchmark, with its options and output: blocks of messages, with a delay between them that adapts to the queue.
 *
 * ```js
 * import { benchmark } from 'forebay/qoper8/benchmark';
 *
 * await benchmark({ poolSize: 2, maxMessages: 100_000, blockLength: 1_400, delay: 135 });
 * ```
 *
 * `forebay bench pool` measures more: percentiles, warm-up, repeats, other pools.
 *
 * @module
 */
import { fileURLToPath } from 'node:url';
import { AdaptiveDelay } from '../pool/benchmark/adaptive.js';
import { completedSending, delayIncreased, delayReduced, queueExhausted, queueIncreased, summary } from '../pool/benchmark/lines.js';
import type { QOper8Message } from './delivery.js';
import type { QOper8Options } from './options.js';
import { QOper8 } from './qoper8.js';
import type { HandlerEntry } from './setup.js';

export interface BenchmarkOptions extends Pick<QOper8Options, 'kind' | 'maxQLength' | 'maxQueueLength' | 'logging' | 'mgdbx' | 'onStartup' | 'handlerTimeout' | 'QBackup' | 'pool'> {
  /** Maximum number of workers; 1 by default. */
  poolSize?: number;
  /** Total number of messages; 5,000 by default. */
  maxMessages?: number;
  /** Messages per block; 100 by default. */
  blockLength?: number;
  /** Initial delay between two blocks in milliseconds; 200 by default. */
  delay?: number;
  /** The message to send copies of, instead of one of type `benchmark`. */
  message?: QOper8Message;
  /** Additional handlers by message type. */
  handlers?: Readonly<Record<string, HandlerEntry>>;
  /** Receives the output lines; `console.log` by default. Not in QOper8. */
  print?: (line: string) => void;
}

export interface BenchmarkResult {
  readonly messages: number;
  readonly seconds: number;
  /** Messages per second. */
  readonly rate: number;
  /** Number of messages by worker id. */
  readonly workers: readonly number[];
  /** Number of replies with a member `error`, which also count as messages; and the text of the first. */
  readonly errors: number;
  readonly firstError: string | null;
}

/** Runs the benchmark and stops its pool; resolves when every message has been answered. */
export async function benchmark(options: BenchmarkOptions = {}): Promise<BenchmarkResult> {
  const { poolSize = 1, maxMessages = 5_000, blockLength = 100, delay = 200, message, handlers = {}, print = console.log, ...others } = options;
  for (const [name, value] of Object.entries({ maxMessages, blockLength })) {
    if (!Number.isInteger(value) || value < 1) throw new RangeError(`${name} is a whole number of at least 1, not ${String(value)}`);
  }
  const own: HandlerEntry = { module: fileURLToPath(new URL('./benchmark-handler.js', import.meta.url)) };
  const qoper8 = new QOper8({
    workerInactivityLimit: 2,
    ...others,
    poolSize,
    handlersByMessageType: new Map([['benchmark', own], ...Object.entries(handlers)]),
  });
  const workers = new Array<number>(poolSize).fill(0);
  const pace = new AdaptiveDelay(delay);
  let sent = 0;
  let answered = 0;
  let block = 0;
  let errors = 0;
  let firstError: string | null = null;
  const began = performance.now();

  return new Promise((resolve) => {
    function count(reply: { error?: unknown; qoper8?: { finished?: boolean } }, workerId: number | undefined): void {
      if (reply.error !== undefined) {
        errors++;
        firstError ??= String(reply.error);
      } else if (reply.qoper8?.finished !== true) return;
      if (workerId !== undefined) workers[workerId] = (workers[workerId] ?? 0) + 1;
      if (++answered === maxMessages) void end();
    }

    async function end(): Promise<void> {
      const seconds = (performance.now() - began) / 1_000;
      for (const line of summary(maxMessages, seconds, [...workers].map((handled) => handled ?? 0))) print(line);
      if (errors > 0) print(`${errors} messages were answered with an error, the first with: ${firstError}`);
      await qoper8.stop();
      resolve({ messages: maxMessages, seconds, rate: maxMessages / seconds, workers, errors, firstError });
    }

    function later(): void {
      if (pace.delay_ms > 0) setTimeout(send, pace.delay_ms);
      else setImmediate(send);
    }

    function send(): void {
      block++;
      const waiting = qoper8.getQueueLength();
      const change = pace.observe(waiting);
      if (change === 'increased') [queueIncreased(block, sent, waiting), delayIncreased(pace.delay_ms)].forEach((line) => print(line));
      else if (change === 'reduced') [queueExhausted(block, sent), delayReduced(pace.delay_ms)].forEach((line) => print(line));
      for (const until = Math.min(maxMessages, sent + blockLength); sent < until; ) {
        sent++;
        qoper8.message(message === undefined ? { type: 'benchmark', messageNo: sent, time: Date.now() } : { ...message }, count);
      }
      if (sent < maxMessages) later();
      else print(completedSending());
    }

    later();
  });
}
