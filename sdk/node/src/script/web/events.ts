/** Events and event targets (DOM, section 2), without a tree: an event has one target. */

export interface EventInit {
  bubbles?: boolean;
  cancelable?: boolean;
  composed?: boolean;
}

export class Event {
  static readonly NONE = 0;
  static readonly CAPTURING_PHASE = 1;
  static readonly AT_TARGET = 2;
  static readonly BUBBLING_PHASE = 3;
  readonly type: string;
  readonly bubbles: boolean;
  readonly cancelable: boolean;
  readonly composed: boolean;
  readonly timeStamp = performance.now();
  readonly isTrusted = false;
  #target: EventTarget | null = null;
  #isDispatched = false;
  #isPrevented = false;
  #isStopped = false;
  #isPassive = false;

  constructor(type: string, init: EventInit = {}) {
    this.type = String(type);
    this.bubbles = Boolean(init.bubbles);
    this.cancelable = Boolean(init.cancelable);
    this.composed = Boolean(init.composed);
  }

  get target(): EventTarget | null {
    return this.#target;
  }

  get currentTarget(): EventTarget | null {
    return this.#isDispatched ? this.#target : null;
  }

  get srcElement(): EventTarget | null {
    return this.#target;
  }

  get eventPhase(): number {
    return this.#isDispatched ? Event.AT_TARGET : Event.NONE;
  }

  get defaultPrevented(): boolean {
    return this.#isPrevented;
  }

  get returnValue(): boolean {
    return !this.#isPrevented;
  }

  get cancelBubble(): boolean {
    return this.#isStopped;
  }

  composedPath(): EventTarget[] {
    return this.#isDispatched && this.#target !== null ? [this.#target] : [];
  }

  preventDefault(): void {
    if (this.cancelable && !this.#isPassive) this.#isPrevented = true;
  }

  stopPropagation(): void {}

  stopImmediatePropagation(): void {
    this.#isStopped = true;
  }

  /** Calls the listeners of a target. */
  static dispatch(event: Event, target: EventTarget, listeners: readonly Listener[]): boolean {
    if (event.#isDispatched) throw new DOMException('the event is being dispatched already', 'InvalidStateError');
    event.#target = target;
    event.#isDispatched = true;
    event.#isStopped = false;
    // Listeners added during the dispatch are not called for this event.
    for (const listener of [...listeners]) {
      if (listener.isRemoved) continue;
      if (listener.once) target.removeEventListener(event.type, listener.callback, { capture: listener.capture });
      event.#isPassive = listener.passive;
      try {
        const { callback } = listener;
        if (typeof callback === 'function') callback.call(target, event);
        else callback.handleEvent(event);
      } catch (error) {
        // An unhandled rejection is logged, and the other listeners are still called.
        void Promise.reject(error);
      }
      event.#isPassive = false;
      if (event.#isStopped) break;
    }
    event.#isDispatched = false;
    return !event.#isPrevented;
  }
}

export class CustomEvent extends Event {
  readonly detail: unknown;

  constructor(type: string, init: EventInit & { detail?: unknown } = {}) {
    super(type, init);
    this.detail = init.detail ?? null;
  }
}

type Callback = ((this: EventTarget, event: Event) => void) | { handleEvent(event: Event): void };

interface Listener {
  readonly callback: Callback;
  readonly capture: boolean;
  readonly once: boolean;
  readonly passive: boolean;
  isRemoved: boolean;
}

interface ListenerOptions {
  capture?: boolean;
  once?: boolean;
  passive?: boolean;
  signal?: AbortSignal;
}

export class EventTarget {
  readonly #listeners = new Map<string, Listener[]>();

  addEventListener(type: string, callback: Callback | null, options: boolean | ListenerOptions = {}): void {
    const { capture = false, once = false, passive = false, signal } = options === true ? { capture: true } : options || {};
    if (callback === null || signal?.aborted === true) return;
    const name = String(type);
    let listeners = this.#listeners.get(name);
    if (listeners === undefined) this.#listeners.set(name, (listeners = []));
    if (listeners.some((other) => other.callback === callback && other.capture === capture)) return;
    listeners.push({ callback, capture, once, passive, isRemoved: false });
    signal?.addEventListener('abort', () => this.removeEventListener(name, callback, { capture }), { once: true });
  }

  removeEventListener(type: string, callback: Callback | null, options: boolean | ListenerOptions = {}): void {
    const capture = options === true || (options as ListenerOptions).capture === true;
    const listeners = this.#listeners.get(String(type));
    const at = listeners?.findIndex((other) => other.callback === callback && other.capture === capture) ?? -1;
    if (at < 0) return;
    listeners![at]!.isRemoved = true;
    if (listeners!.length === 1) this.#listeners.delete(String(type));
    else this.#listeners.set(String(type), listeners!.toSpliced(at, 1));
  }

  dispatchEvent(event: Event): boolean {
    if (!(event instanceof Event)) throw new TypeError('an Event is dispatched');
    return Event.dispatch(event, this, this.#listeners.get(event.type) ?? []);
  }
}
