/** Abort signals (DOM, section 3). */
import { Event, EventTarget } from './events.js';
import { setTimeout } from './timers.js';

const OWN = Symbol('only this module makes signals');

export class AbortSignal extends EventTarget {
  onabort: ((event: Event) => void) | null = null;
  #isAborted = false;
  #reason: unknown;
  /** Internal callbacks; called once, before the listeners. */
  #followers: ((reason: unknown) => void)[] = [];

  constructor(own: symbol) {
    if (own !== OWN) throw new TypeError('Illegal constructor');
    super();
  }

  get aborted(): boolean {
    return this.#isAborted;
  }

  get reason(): unknown {
    return this.#reason;
  }

  throwIfAborted(): void {
    if (this.#isAborted) throw this.#reason;
  }

  static abort(reason: unknown = new DOMException('This operation was aborted', 'AbortError')): AbortSignal {
    const signal = new AbortSignal(OWN);
    AbortSignal.end(signal, reason);
    return signal;
  }

  static timeout(ms: number): AbortSignal {
    const signal = new AbortSignal(OWN);
    const over = () =>
      AbortSignal.end(signal, new DOMException('The operation was aborted due to timeout', 'TimeoutError'));
    setTimeout(over, ms);
    return signal;
  }

  static any(signals: Iterable<AbortSignal>): AbortSignal {
    const own = new AbortSignal(OWN);
    const all = [...signals];
    const first = all.find((signal) => signal.aborted);
    if (first !== undefined) AbortSignal.end(own, first.reason);
    else for (const signal of all) signal.#followers.push((reason) => AbortSignal.end(own, reason));
    return own;
  }

  /** @internal */
  static fresh(): AbortSignal {
    return new AbortSignal(OWN);
  }

  /** @internal */
  static end(signal: AbortSignal, reason: unknown): void {
    if (signal.#isAborted) return;
    signal.#isAborted = true;
    signal.#reason = reason;
    const event = new Event('abort');
    if (typeof signal.onabort === 'function') signal.addEventListener('abort', signal.onabort as never, { once: true });
    signal.dispatchEvent(event);
    for (const follow of signal.#followers.splice(0)) follow(reason);
  }
}

export class AbortController {
  readonly #signal = AbortSignal.fresh();

  get signal(): AbortSignal {
    return this.#signal;
  }

  abort(reason: unknown = new DOMException('This operation was aborted', 'AbortError')): void {
    AbortSignal.end(this.#signal, reason);
  }
}

