/** Event listeners as in QOper8, any number of them per event. */

/** Receives the data of an event. */
export type Listener = (data: any) => unknown;

export class Listeners {
  readonly #byEvent = new Map<string, Listener[]>();
  /** The `this` of listeners. */
  readonly #self: object;

  constructor(self: object) {
    this.#self = self;
  }

  has(event: string): boolean {
    return this.#byEvent.has(event);
  }

  /** Adds a listener; adding it twice has no effect. */
  on(event: string, listener: Listener): void {
    if (typeof listener !== 'function') throw new TypeError(`the listener of ${JSON.stringify(event)} is a function, not ${typeof listener}`);
    const listeners = this.#byEvent.get(event);
    if (listeners === undefined) this.#byEvent.set(event, [listener]);
    else if (!listeners.includes(listener)) this.#byEvent.set(event, [...listeners, listener]);
  }

  /** Removes a listener, or all listeners of an event. */
  off(event: string, listener?: Listener): void {
    const rest = listener === undefined ? [] : (this.#byEvent.get(event) ?? []).filter((each) => each !== listener);
    if (rest.length > 0) this.#byEvent.set(event, rest);
    else this.#byEvent.delete(event);
  }

  /** Calls all listeners; returns their results. An error of a listener becomes an uncaught exception and does not stop the others. */
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

/** Throws an error of a callback as an uncaught exception, outside of the current call. */
export function throwLater(error: unknown): void {
  queueMicrotask(() => {
    throw error;
  });
}
