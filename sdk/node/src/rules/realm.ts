/**
 * The globals of rules. Each run finds them as if it were the first: existing objects are frozen, and globals that a run adds are removed.
 *
 * On frozen prototypes, assigning to an inherited member would fail (`error.name = ...`), though it would only change the object itself.
 * Members to which programs do this are therefore replaced by accessors that define an own property, as in Agoric's SES.
 */

/** Prototype members that programs assign to on their own objects; null means all members of the prototype. */
const ASSIGNABLE: readonly (readonly [object, readonly string[] | null])[] = [
  [Object.prototype, null],
  [Array.prototype, ['constructor', 'toString', 'length', 'push', 'concat']],
  [Function.prototype, ['constructor', 'bind', 'toString', 'call', 'apply', 'name', 'length']],
  [Promise.prototype, ['constructor', 'then']],
  [Date.prototype, ['constructor', 'toString', 'toJSON']],
  [RegExp.prototype, ['constructor', 'toString']],
  [Map.prototype, ['constructor', 'get', 'set', 'has']],
  [Set.prototype, ['constructor', 'add', 'has']],
  ...[Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError, AggregateError].map((type) => [type.prototype, null] as const),
];

/** Removed, because with these a run could observe another one or block its thread. */
const ABSENT = ['Atomics', 'FinalizationRegistry', 'SharedArrayBuffer', 'WeakRef'];

/** Objects returned by an iterator's `map` and by `Iterator.from`. */
function iteratorHelpers(): unknown[] {
  const { Iterator } = globalThis as unknown as { Iterator?: { from(iterator: object): object } };
  if (Iterator === undefined) return [];
  const helped = [].values() as unknown as { map(take: () => void): object };
  return [helped.map(() => {}), Iterator.from({ next: () => ({ done: true }) })];
}

/** Objects that only syntax leads to, and no global. */
const HIDDEN: readonly unknown[] = [
  Object.getPrototypeOf(function* () {}),
  Object.getPrototypeOf(async function () {}),
  Object.getPrototypeOf(async function* () {}),
  Object.getPrototypeOf(() => 0),
  Object.getPrototypeOf(Int8Array),
  [][Symbol.iterator](),
  ''[Symbol.iterator](),
  new Map()[Symbol.iterator](),
  new Set()[Symbol.iterator](),
  'a'.matchAll(/a/g),
  ...iteratorHelpers(),
  Object.getPrototypeOf(async function* () {}.prototype),
].flatMap((value) => [Object.getPrototypeOf(value), value]);

const { defineProperty, freeze, getOwnPropertyDescriptor, getPrototypeOf } = Object;
const { isExtensible, ownKeys } = Reflect;
const root = Object.prototype;

function makeAssignable(prototype: object, name: string): void {
  const found = getOwnPropertyDescriptor(prototype, name);
  if (found === undefined || !('value' in found) || !found.configurable) return;
  const { value, enumerable } = found as { value: unknown; enumerable: boolean };
  const accessors = {
    get: () => value,
    set(this: object, own: unknown) {
      if (this === prototype) throw new TypeError(`${name} of what all rules share cannot be changed`);
      if (Object.hasOwn(this, name)) (this as Record<string, unknown>)[name] = own;
      else defineProperty(this, name, { value: own, writable: true, enumerable: true, configurable: true });
    },
  };
  freeze(accessors.get);
  freeze(accessors.set);
  defineProperty(prototype, name, { ...accessors, enumerable, configurable: false });
}

/** Freezes everything reachable from these values. */
function freezeAll(values: readonly unknown[]): void {
  const seen = new Set<unknown>([globalThis]);
  const waiting: unknown[] = [...values];
  for (let value = waiting.pop(); value !== undefined || waiting.length > 0; value = waiting.pop()) {
    if ((typeof value !== 'object' && typeof value !== 'function') || value === null || seen.has(value)) continue;
    seen.add(value);
    // Elements of typed arrays cannot be frozen; rules are given none.
    if (!ArrayBuffer.isView(value)) freeze(value);
    waiting.push(getPrototypeOf(value));
    for (const key of ownKeys(value)) {
      const member = getOwnPropertyDescriptor(value, key)!;
      waiting.push(member.value, member.get, member.set);
    }
  }
}

let known: ReadonlySet<PropertyKey>;

/**
 * Freezes the globals: the engine's, the given ones, and other objects that runs can obtain. After this, a run can leave only new globals
 * behind.
 */
export function close(globals: Readonly<Record<string, unknown>>, reachable: readonly unknown[]): void {
  for (const name of ABSENT) Reflect.deleteProperty(globalThis, name);
  // The engine stores their values outside of the object, and calls `prepareStackTrace` for every error.
  for (const name of ['prepareStackTrace', 'stackTraceLimit']) Reflect.deleteProperty(Error, name);
  for (const [name, value] of Object.entries(globals)) {
    defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true });
  }
  for (const [prototype, names] of ASSIGNABLE) {
    for (const name of names ?? ownKeys(prototype)) if (typeof name === 'string' && name !== '__proto__') makeAssignable(prototype, name);
  }
  const all: unknown[] = [...HIDDEN, ...reachable];
  for (const key of ownKeys(globalThis)) {
    const member = getOwnPropertyDescriptor(globalThis, key)!;
    all.push(member.value, member.get, member.set);
    if (key === 'globalThis' || !member.configurable) continue;
    defineProperty(globalThis, key, 'value' in member ? { writable: false, configurable: false } : { configurable: false });
  }
  defineProperty(globalThis, 'globalThis', { writable: false, configurable: false });
  freezeAll(all);
  known = new Set(ownKeys(globalThis));
}

/** Removes the globals that a run has added. @throws if one cannot be removed. */
export function clean(): void {
  if (getPrototypeOf(globalThis) !== root || !isExtensible(globalThis)) throw new Error('the global object itself was changed');
  const keys = ownKeys(globalThis);
  if (keys.length === known.size) return;
  for (const key of keys) {
    if (!known.has(key) && !Reflect.deleteProperty(globalThis, key)) throw new Error(`the global ${String(key)} cannot be taken away`);
  }
}
