/**
 * The driver: a program that measures one contender once. It reads a plan, one line of JSON on standard input, and writes lines of JSON
 * to standard output, each with a member `forebay`: `ready`, `progress`, `line`, and at the end `result` or `error`. It exits when
 * standard input ends.
 */
import { availableParallelism } from 'node:os';
import type { Times } from './contender.js';
import { descendants, everything_us, machineBusy_us, mainThread_us } from './cpu.js';
import { summary } from './lines.js';
import { drive, type Observer, type Outcome } from './loop.js';
import { readPlan, type Plan } from './plan.js';
import { start } from './start.js';

/** A contender that is not ready by then counts as failed. */
const START_MS_MAX = 30_000;
/** A contender that has not closed by then is killed. */
const CLOSE_MS_MAX = 3000;

/** In shorter runs the CPU use of others is not reported: one tick would be a percent. */
const JUDGED_MS_MIN = 500;

const PERCENTILES = { p50_us: 0.5, p90_us: 0.9, p99_us: 0.99, p999_us: 0.999 } as const;

function writeLine(kind: string, members: object): void {
  process.stdout.write(`${JSON.stringify({ forebay: kind, ...members })}\n`);
}

async function run(plan: Plan): Promise<void> {
  const begun = performance.now();
  const contender = await within(start(plan), START_MS_MAX, `${plan.contender} was not ready`);
  writeLine('ready', { version: contender.version, settings: contender.settings, start_ms: performance.now() - begun });
  const { adaptive } = plan;
  // Warm up with a fixed number of messages in flight; the pace of blocks does not matter for it.
  const warm: Plan = { ...plan, outstanding: plan.outstanding ?? plan.block * 2, adaptive: false };
  if (plan.warmup > 0) await drive(contender, warm, plan.warmup, observer('warmup', plan.warmup));
  contender.resetTimes?.();
  const rss_before_bytes = process.memoryUsage.rss();
  const [main, everything, busy] = [mainThread_us(), everything_us(), machineBusy_us()];
  const outcome = await drive(contender, plan, plan.messages, observer('measured', plan.messages));
  const [mainAfter, everythingAfter, busyAfter] = [mainThread_us(), everything_us(), machineBusy_us()];
  if (adaptive) {
    const handledCounts = outcome.workers.map((each) => each.messages);
    for (const text of summary(outcome.messages, outcome.elapsed_ms / 1000, handledCounts)) writeLine('line', { text });
  }
  const times = contender.times?.();
  writeLine('result', {
    ...figures(outcome),
    wait: times?.wait ?? null,
    run: times?.run ?? null,
    main_us: perMessage(main, mainAfter, plan),
    all_us: perMessage(everything, everythingAfter, plan),
    others_share: othersShare(difference(busy, busyAfter), difference(everything, everythingAfter), outcome.elapsed_ms),
    rss_before_bytes,
    rss_bytes: process.memoryUsage.rss(),
  });
  await within(contender.close(), CLOSE_MS_MAX, `${plan.contender} did not close`).catch((error: unknown) => {
    process.stderr.write(`${String(error)}\n`);
  });
}

function difference(before: number | null, after: number | null): number | null {
  return before === null || after === null ? null : after - before;
}

function perMessage(before: number | null, after: number | null, plan: Plan): number | null {
  const used = difference(before, after);
  return used === null ? null : used / plan.messages;
}

/** The share of the machine's CPU that others used meanwhile; null if the kernel's ticks are too coarse to tell. */
function othersShare(busy_us: number | null, own_us: number | null, elapsed_ms: number): number | null {
  if (busy_us === null || own_us === null || elapsed_ms < JUDGED_MS_MIN) return null;
  return Math.max(0, (busy_us - own_us) / (elapsed_ms * 1000 * availableParallelism()));
}

function figures(outcome: Outcome): object {
  const { latency } = outcome;
  const percentiles = Object.entries(PERCENTILES).map(([name, q]) => [name, latency.percentile_us(q)]);
  const times: Times = { ...Object.fromEntries(percentiles), max_us: latency.max_us };
  return {
    messages: outcome.messages,
    elapsed_s: outcome.elapsed_ms / 1000,
    rate: outcome.messages / (outcome.elapsed_ms / 1000),
    latency: { mean_us: latency.mean_us, ...times },
    workers: outcome.workers,
    errors: outcome.errors,
    error_texts: outcome.errorTexts,
    delay_ms: outcome.delay_ms,
    outstanding_max: outcome.outstanding_max,
  };
}

function observer(part: 'warmup' | 'measured', messages: number): Observer {
  return {
    progress: (submitted, answered) => writeLine('progress', { part, messages, submitted, answered }),
    line: (text) => writeLine('line', { text }),
  };
}

/** The result of `work`; rejects if it takes longer than `limit_ms`. */
function within<T>(work: Promise<T>, limit_ms: number, what: string): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`${what} within ${limit_ms} ms`)), limit_ms);
    work.then(resolve, reject).finally(() => clearTimeout(timer));
  });
}

/** Exits, and kills whatever processes a contender has left behind: qoper8-cp forgets children, which would outlive this process. */
function end(code: number): void {
  for (const pid of descendants()) {
    try {
      process.kill(pid, 'SIGKILL');
    } catch {
      // It has already ended.
    }
  }
  process.stdout.write('', () => process.exit(code));
}

function fail(error: unknown): void {
  writeLine('error', { text: error instanceof Error ? error.message : String(error) });
  end(1);
}

process.on('uncaughtException', fail);
let text = '';
let begun = false;
process.stdin.setEncoding('utf8');
process.stdin.on('data', (chunk: string) => {
  text += chunk;
  const line = text.indexOf('\n');
  if (begun || line < 0) return;
  begun = true;
  Promise.resolve(text.slice(0, line))
    .then(readPlan)
    .then(run)
    .then(() => end(0), fail);
});
process.stdin.on('end', () => end(1));
