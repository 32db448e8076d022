// Open-loop load: requests fall due at a fixed rate, whatever the server does, and each latency counts from the moment its
// request was due, not from when it was sent. So a server that stalls is charged for every request that was due while it
// stalled (no coordinated omission), and so is this program when it is late itself; `late` reports how late it was.

import { percentile } from '../stats.mjs';
import { Connection } from './connection.mjs';

const TICK_MS = 1; // the finest timer of Node; requests may be sent about this much late
const ANSWER_WAIT_MS = 15_000; // for outstanding responses after the last request was sent
/**
 * If the 99th percentile of the lateness is above this, the generator did not keep its schedule, and the run says more about it than about
 * the server.
 */
const LATE_P99_MAX_MS = 5;

/**
 * Runs a plan and resolves to the result. The plan:
 * `port`; `warmup_s`, whose requests are not counted; `seconds`; `connections`, opened before the start; `connections_max`, up to which
 * more are opened when all are busy (a request that finds none waits, and its wait counts); `streams`: `[{name, path, post, rate}]`, rate
 * in requests/s; with
 * `post`, POST of this JSON instead of GET.
 */
export async function generate(plan) {
  const run = new Run(plan);
  await run.connect();
  return run.toEnd();
}

function requestText(port, path, post) {
  const host = `HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n`;
  if (post === undefined) return `GET ${path} ${host}\r\n`;
  return `POST ${path} ${host}content-type: application/json\r\ncontent-length: ${Buffer.byteLength(post)}\r\n\r\n${post}`;
}

class Run {
  #plan;
  #streams;
  #free = [];
  #open = 0;
  #waiting = []; // requests that found no free connection, oldest first
  #waitingHead = 0;
  #waitingMax = 0;
  #outstanding = 0;
  #late_ms = [];
  #errors = new Map();
  #began;
  #scheduled = false;
  #finish;

  constructor(plan) {
    this.#plan = plan;
    this.#streams = plan.streams.map(({ name, path, post, rate }) => ({
      name,
      rate,
      request: requestText(plan.port, path, post),
      next: 0, // number of the next request
      total: Math.floor(rate * (plan.warmup_s + plan.seconds)),
      latencies_ms: new Map(), // by status
      without_retry_after: 0,
      failed: 0,
    }));
  }

  /** Opens the first connections; fails if the server is not running. */
  async connect() {
    const links = Array.from({ length: this.#plan.connections }, () => this.#openLink());
    await Promise.all(links.map((link) => link.connection.opened()));
    this.#free.push(...links);
  }

  async toEnd() {
    const done = new Promise((resolve) => {
      this.#finish = resolve;
    });
    this.#began = performance.now();
    this.#tick();
    await done;
    return this.#summary();
  }

  #openLink() {
    const link = { job: null };
    link.connection = new Connection(this.#plan.port, {
      onAnswer: (answer) => this.#answered(link, answer),
      onGone: (error) => this.#gone(link, error),
    });
    this.#open += 1;
    return link;
  }

  /** Sends everything that is due, and schedules itself again in a millisecond. */
  #tick() {
    const now = performance.now() - this.#began;
    let left = 0;
    for (const stream of this.#streams) {
      for (; stream.next < stream.total; stream.next += 1) {
        const due = (stream.next * 1000) / stream.rate;
        if (due > now) break;
        this.#send({ stream, due });
      }
      left += stream.total - stream.next;
    }
    if (left > 0) {
      setTimeout(() => this.#tick(), TICK_MS);
      return;
    }
    this.#scheduled = true;
    this.#finishWhenAnswered();
    setTimeout(this.#finish, ANSWER_WAIT_MS).unref();
  }

  #send(job) {
    this.#outstanding += 1;
    if (this.#counts(job)) this.#late_ms.push(performance.now() - this.#began - job.due);
    const link = this.#free.pop() ?? (this.#open < this.#plan.connections_max ? this.#openLink() : null);
    if (link) this.#sendOn(link, job);
    else {
      this.#waiting.push(job);
      this.#waitingMax = Math.max(this.#waitingMax, this.#waiting.length - this.#waitingHead);
    }
  }

  #sendOn(link, job) {
    link.job = job;
    link.connection.send(job.stream.request);
  }

  #answered(link, { status, retryAfter, close }) {
    const { job } = link;
    if (!job) throw new Error('an answer without a request');
    link.job = null;
    if (this.#counts(job)) {
      const { latencies_ms } = job.stream;
      if (!latencies_ms.has(status)) latencies_ms.set(status, []);
      latencies_ms.get(status).push(performance.now() - this.#began - job.due);
      if (status === 503 && !retryAfter) job.stream.without_retry_after += 1;
    }
    this.#outstanding -= 1;
    if (!close) this.#reuse(link);
    this.#finishWhenAnswered();
  }

  #reuse(link) {
    const next = this.#takeWaiting();
    if (next) this.#sendOn(link, next);
    else this.#free.push(link);
  }

  #takeWaiting() {
    if (this.#waitingHead === this.#waiting.length) return null;
    const job = this.#waiting[this.#waitingHead];
    this.#waitingHead += 1;
    if (this.#waitingHead === this.#waiting.length) {
      this.#waiting = [];
      this.#waitingHead = 0;
    }
    return job;
  }

  #gone(link, error) {
    this.#open -= 1;
    const place = this.#free.indexOf(link);
    if (place >= 0) this.#free.splice(place, 1);
    if (link.job) {
      if (this.#counts(link.job)) {
        link.job.stream.failed += 1;
        this.#errors.set(error.message, (this.#errors.get(error.message) ?? 0) + 1);
      }
      this.#outstanding -= 1;
    }
    if (this.#waitingHead < this.#waiting.length) this.#sendOn(this.#openLink(), this.#takeWaiting());
    this.#finishWhenAnswered();
  }

  #counts({ due }) {
    return due >= this.#plan.warmup_s * 1000;
  }

  #finishWhenAnswered() {
    if (this.#scheduled && this.#outstanding === 0) this.#finish();
  }

  #summary() {
    const late_ms = distribution(this.#late_ms);
    const flags = [];
    if (late_ms.p99 > LATE_P99_MAX_MS) flags.push(`the generator fell behind: ${late_ms.p99.toFixed(1)} ms late at p99`);
    if (this.#outstanding > 0) flags.push(`${this.#outstanding} requests without any answer`);
    for (const [message, count] of this.#errors) flags.push(`${count} failed: ${message}`);
    return {
      seconds: this.#plan.seconds,
      late_ms,
      waiting_max: this.#waitingMax,
      connections: this.#open,
      streams: Object.fromEntries(this.#streams.map((stream) => [stream.name, summaryOf(stream)])),
      flags,
    };
  }
}

function summaryOf({ latencies_ms, without_retry_after, failed, rate }) {
  return {
    rate,
    failed,
    without_retry_after,
    answers: Object.fromEntries([...latencies_ms].map(([status, samples]) => [status, distribution(samples)])),
  };
}

function distribution(samples) {
  const at = (q) => percentile(samples, q);
  return { count: samples.length, p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max: at(1) };
}
