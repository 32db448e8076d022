/**
 * The loop that drives all contenders: submits messages, in blocks or as replies arrive, and counts their outcomes.
 *
 * The work for each message is part of every contender's figures, so it is kept small: two readings of the clock and one new object for
 * the message; tickets are reused. The contender `nothing` shows what the loop costs.
 */
import { AdaptiveDelay } from './adaptive.js';
import type { BenchMessage, Contender, Ticket } from './contender.js';
import { LatencyHistogram } from './latency.js';
import { completedSending, delayIncreased, delayReduced, queueExhausted, queueIncreased } from './lines.js';
import { OUTSTANDING_MAX, type Plan } from './plan.js';

/** How often progress is reported and checked. */
const WATCH_MS = 200;
/** At most this many different error texts are kept; further errors are only counted. */
const ERROR_TEXTS_MAX = 5;
/** Longer error texts are cut. */
const ERROR_TEXT_LENGTH_MAX = 300;
/** Workers with numbers up to this are counted in an array. */
const SMALL_ID_MAX = 4096;

/** The result of one phase of a run: the warm-up or the measurement. */
export interface Outcome {
  readonly messages: number;
  readonly elapsed_ms: number;
  readonly latency: LatencyHistogram;
  /** Messages per worker, sorted by the worker's own name. */
  readonly workers: readonly { readonly worker: string; readonly messages: number }[];
  readonly errors: number;
  readonly errorTexts: readonly { readonly text: string; readonly count: number }[];
  /** The final delay, if blocks were sent. */
  readonly delay_ms: number;
  /** The highest number of messages that waited for a reply. */
  readonly outstanding_max: number;
}

/** Receives events while a phase runs. */
export interface Observer {
  progress(submitted: number, answered: number): void;
  line(text: string): void;
}

/** Sends `messages` messages and resolves when each has ended. Rejects if no reply arrives for `plan.deadline_ms`. */
export function drive(contender: Contender, plan: Plan, messages: number, observer: Observer): Promise<Outcome> {
  return new Promise((resolve, reject) => new Loop(contender, plan, messages, observer, resolve, reject).begin());
}

class Loop {
  readonly #contender: Contender;
  readonly #plan: Plan;
  readonly #messages: number;
  readonly #observer: Observer;
  readonly #resolve: (outcome: Outcome) => void;
  readonly #reject: (error: Error) => void;
  readonly #payload: string | null;
  /** Whether replies come from the default handler, so that they can be matched with their messages. */
  readonly #checksReplies: boolean;
  readonly #delay: AdaptiveDelay;
  readonly #latency = new LatencyHistogram();
  readonly #smallWorkers = new Float64Array(SMALL_ID_MAX + 1);
  readonly #otherWorkers = new Map<unknown, number>();
  readonly #errorTexts = new Map<string, number>();
  #errors = 0;
  #submitted = 0;
  #answered = 0;
  #outstandingMax = 0;
  #block = 0;
  /** Unused tickets. */
  readonly #free: Ticket[] = [];
  #tickets = 0;
  /** For each ticket: when its message was submitted, and the message's number, 0 if it has none. */
  #started: Float64Array;
  #numbers: Float64Array;
  #filling = false;
  #startedAt = 0;
  #watch: NodeJS.Timeout | undefined;
  #hasEnded = false;

  constructor(contender: Contender, plan: Plan, messages: number, observer: Observer, resolve: (outcome: Outcome) => void, reject: (error: Error) => void) {
    this.#contender = contender;
    this.#plan = plan;
    this.#messages = messages;
    this.#observer = observer;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#payload = plan.payload > 0 ? 'x'.repeat(plan.payload) : null;
    this.#checksReplies = plan.handler === null;
    this.#delay = new AdaptiveDelay(plan.delay_ms);
    const tickets = plan.outstanding ?? plan.block;
    this.#started = new Float64Array(tickets);
    this.#numbers = new Float64Array(tickets);
  }

  begin(): void {
    this.#startedAt = performance.now();
    this.#watchOver();
    if (this.#plan.outstanding === null) this.#blockLater();
    else this.#fill(this.#plan.outstanding);
  }

  /** Submits until `outstanding` messages have no reply, or all are submitted. */
  #fill(outstanding: number): void {
    // A contender may answer within `submit`; that reply then sees that this loop runs and does not start another.
    this.#filling = true;
    while (this.#submitted < this.#messages && this.#submitted - this.#answered < outstanding) this.#submit();
    this.#filling = false;
    this.#outstandingMax = Math.max(this.#outstandingMax, this.#submitted - this.#answered);
    if (this.#answered === this.#messages) this.#finish();
  }

  #submit(): void {
    const ticket = this.#free.pop() ?? this.#ticket();
    const messageNo = (this.#submitted += 1);
    const now = performance.now();
    const time = Math.trunc(performance.timeOrigin + now);
    const message: BenchMessage =
      this.#payload === null ? { type: 'benchmark', messageNo, time } : { type: 'benchmark', messageNo, time, payload: this.#payload };
    this.#started[ticket.index] = now;
    this.#numbers[ticket.index] = messageNo;
    try {
      this.#contender.submit(message, ticket);
    } catch (error) {
      ticket.failed(error);
    }
  }

  #ticket(): Ticket {
    const index = (this.#tickets += 1) - 1;
    if (index === this.#started.length) {
      this.#started = longer(this.#started);
      this.#numbers = longer(this.#numbers);
    }
    const ticket: Ticket = {
      index,
      done: (reply, worker) => this.#done(ticket, reply, worker),
      failed: (error) => this.#failed(ticket, error),
      callback: null,
    };
    return ticket;
  }

  #done(ticket: Ticket, reply: unknown, worker: unknown): void {
    const { index } = ticket;
    this.#latency.record(performance.now() - this.#started[index]!);
    const found = (typeof reply === 'object' && reply !== null ? reply : {}) as { readonly messageNo?: unknown; readonly workerId?: unknown };
    if (this.#checksReplies && found.messageNo !== this.#numbers[index]) {
      this.#fault(this.#numbers[index] === 0 ? 'a message got a second reply' : 'a message got the reply of another');
      if (this.#numbers[index] === 0) return;
    }
    const id = found.workerId ?? worker;
    if (typeof id === 'number' && id >= 0 && id <= SMALL_ID_MAX && Number.isInteger(id)) this.#smallWorkers[id]! += 1;
    else if (id !== undefined) this.#otherWorkers.set(id, (this.#otherWorkers.get(id) ?? 0) + 1);
    this.#release(ticket);
  }

  #failed(ticket: Ticket, error: unknown): void {
    if (this.#numbers[ticket.index] === 0) return this.#fault('a message got a second reply');
    this.#fault(error instanceof Error ? error.message : typeof error === 'string' ? error : JSON.stringify(error));
    this.#release(ticket);
  }

  #release(ticket: Ticket): void {
    this.#numbers[ticket.index] = 0;
    this.#free.push(ticket);
    this.#answered += 1;
    if (this.#filling) return;
    if (this.#answered === this.#messages) this.#finish();
    else if (this.#plan.outstanding !== null) this.#fill(this.#plan.outstanding);
  }

  #fault(text: string): void {
    this.#errors += 1;
    const cut = text.slice(0, ERROR_TEXT_LENGTH_MAX);
    const count = this.#errorTexts.get(cut);
    if (count !== undefined || this.#errorTexts.size < ERROR_TEXTS_MAX) this.#errorTexts.set(cut, (count ?? 0) + 1);
  }

  #blockLater(): void {
    const send = (): void => this.#sendBlock();
    if (this.#delay.delay_ms > 0) setTimeout(send, this.#delay.delay_ms);
    else setImmediate(send);
  }

  #sendBlock(): void {
    if (this.#hasEnded) return;
    const waiting = this.#submitted - this.#answered;
    const size = Math.min(this.#plan.block, OUTSTANDING_MAX - waiting);
    if (size <= 0) return this.#blockLater();
    this.#block += 1;
    if (this.#plan.adaptive) this.#adapt(waiting);
    this.#fill(waiting + size);
    if (this.#submitted < this.#messages) this.#blockLater();
    else if (this.#plan.adaptive) this.#observer.line(completedSending());
  }

  #adapt(waiting: number): void {
    switch (this.#delay.observe(waiting)) {
      case 'increased':
        this.#observer.line(queueIncreased(this.#block, this.#submitted, waiting));
        return this.#observer.line(delayIncreased(this.#delay.delay_ms));
      case 'reduced':
        this.#observer.line(queueExhausted(this.#block, this.#submitted));
        return this.#observer.line(delayReduced(this.#delay.delay_ms));
      case 'none':
    }
  }

  /** Reports progress, and gives up when there has been none for the deadline. */
  #watchOver(): void {
    let answered = -1;
    let since = 0;
    this.#watch = setInterval(() => {
      const now = performance.now();
      if (this.#answered !== answered || this.#answered === this.#submitted) [answered, since] = [this.#answered, now];
      this.#observer.progress(this.#submitted, this.#answered);
      if (now - since < this.#plan.deadline_ms) return;
      const missing = this.#submitted - this.#answered;
      const errors = [...this.#errorTexts].map(([text, count]) => `; ${count} x ${text}`).join('');
      this.#end();
      this.#reject(new Error(`no reply to ${missing} of ${this.#submitted} messages within ${this.#plan.deadline_ms} ms${errors}`));
    }, WATCH_MS);
  }

  #end(): void {
    this.#hasEnded = true;
    clearInterval(this.#watch);
  }

  #finish(): void {
    if (this.#hasEnded) return;
    const elapsed_ms = performance.now() - this.#startedAt;
    this.#end();
    const counts = [...this.#otherWorkers].map(([worker, messages]) => ({ worker: String(worker), messages }));
    this.#smallWorkers.forEach((messages, worker) => {
      if (messages > 0) counts.push({ worker: String(worker), messages });
    });
    this.#resolve({
      messages: this.#messages,
      elapsed_ms,
      latency: this.#latency,
      workers: counts.sort((a, b) => a.worker.localeCompare(b.worker, 'en', { numeric: true })),
      errors: this.#errors,
      errorTexts: [...this.#errorTexts].map(([text, count]) => ({ text, count })),
      delay_ms: this.#delay.delay_ms,
      outstanding_max: this.#outstandingMax,
    });
  }
}

function longer(numbers: Float64Array): Float64Array<ArrayBuffer> {
  const found = new Float64Array(numbers.length * 2);
  found.set(numbers);
  return found;
}
