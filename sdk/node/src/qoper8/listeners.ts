/** Events by name, as QOper8 has them, with any number of listeners. */

/** Called with what an event is about. */
export type Listener = (data: any) => unknown;

export class Listeners {
  readonly #byEvent = new Map<string, Listener[]>();
  /** What listeners are called on. */
  readonly #self: object;

  constructor(self: object) {
    this.#self = self;
  }

  has(event: string): boolean {
    return this.#byEvent.has(event);
  }

  /** Adds a listener; one that is there already is not called twice. */
  on(event: string, listener: Listener): void {
    if (typeof listener !== 'function') throw new TypeError(`the listener of ${JSON.stringify(event)} is a function, not ${typeof listener}`);
    const listeners = this.#byEvent.get(event);
    if (listeners === undefined) this.#byEvent.set(event, [listener]);
    else if (!listeners.includes(listener)) this.#byEvent.set(event, [...listeners, listener]);
  }

  /** Removes a listener, or all of an event. */
  off(event: string, listener?: Listener): void {
    const rest = listener === undefined ? [] : (this.#byEvent.get(event) ?? []).filter((each) => each !== listener);
    if (rest.length > 0) this.#byEvent.set(event, rest);
    else this.#byEvent.delete(event);
  }

  /** Calls all listeners; gives what they return. One that throws keeps no other from being called: its error is nobody's, as an uncaught one. */
  emit(event: string, data?: unknown): unknown[] {
    const listeners = this.#byEvent.get(event);
    if (listeners === undefined) return [];
    return listeners.map((listener) => {
      try {
        return listener.call(this.#self, data);
      } catch (error) {
        throwLater(error);
        return undefined;
      }
    });
  }
}

/** Has an error of a callback appear where nothing is in the middle of something. */
export function throwLater(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
