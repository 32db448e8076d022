/** Installs the web APIs as globals. Expensive ones are loaded on first use. */
import { host } from '../host.js';
import { console } from './console.js';
import { clearTimer, setImmediate, setInterval, setTimeout } from './timers.js';

/** Globals provided by each module of this folder. */
const LAZY: Readonly<Record<string, readonly string[]>> = {
  abort: ['AbortController', 'AbortSignal'],
  blob: ['Blob', 'File'],
  clone: ['structuredClone'],
  crypto: ['crypto'],
  encoding: ['TextDecoder', 'TextEncoder'],
  events: ['CustomEvent', 'Event', 'EventTarget'],
  fetch: ['fetch'],
  formdata: ['FormData'],
  headers: ['Headers'],
  messages: ['Request', 'Response'],
  streams: ['ByteLengthQueuingStrategy', 'CountQueuingStrategy', 'ReadableStream', 'ReadableStreamDefaultReader'],
  url: ['URL', 'URLSearchParams'],
  writable: ['TransformStream', 'WritableStream', 'WritableStreamDefaultController', 'WritableStreamDefaultWriter'],
};

export function installGlobals(): void {
  const eager = {
    clearImmediate: clearTimer,
    clearInterval: clearTimer,
    clearTimeout: clearTimer,
    console,
    performance: clock(),
    setImmediate,
    setInterval,
    setTimeout,
  };
  for (const [name, value] of Object.entries(eager)) define(name, value);
  for (const [module, names] of Object.entries(LAZY)) {
    for (const name of names) {
      Object.defineProperty(globalThis, name, {
        configurable: true,
        enumerable: false,
        get() {
          const exports = host.module(`dist/script/web/${module}.js`);
          for (const each of names) define(each, exports[each]);
          return exports[name];
        },
        set: (value: unknown) => define(name, value),
      });
    }
  }
}

/** Loads all lazily loaded modules now; returns them. */
export function loadAll(): Record<string, unknown>[] {
  return Object.entries(LAZY).map(([module, names]) => {
    for (const name of names) void (globalThis as Record<string, unknown>)[name];
    return host.module(`dist/script/web/${module}.js`);
  });
}

/** `performance`: the engine's own clock counts from the machine's boot. */
function clock(): object {
  const { performance } = globalThis;
  const begun = performance.now();
  const timeOrigin = Date.now();
  const now = () => performance.now() - begun;
  return { now, timeOrigin, toJSON: () => ({ timeOrigin }) };
}

function define(name: string, value: unknown): void {
  Object.defineProperty(globalThis, name, { configurable: true, enumerable: false, value, writable: true });
}
