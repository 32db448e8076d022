/** `structuredClone` (HTML, section 2.7) for all types that JavaScript itself defines. */

const ERRORS: Readonly<Record<string, ErrorConstructor>> = {
  Error,
  EvalError,
  RangeError,
  ReferenceError,
  SyntaxError,
  TypeError,
  URIError,
};

export function structuredClone<T>(value: T, options: { transfer?: readonly unknown[] } = {}): T {
  const seen = new Map<unknown, unknown>();
  for (const item of options.transfer ?? []) {
    if (!(item instanceof ArrayBuffer)) throw refused('a value of that type cannot be transferred');
    seen.set(item, item);
  }
  const copy = clone(value, seen) as T;
  for (const item of options.transfer ?? []) {
    // Transferring detaches the original; the new buffer replaces it in the copy.
    const moved = (item as ArrayBuffer & { transfer(): ArrayBuffer }).transfer();
    if ((copy as unknown) === item) return moved as T;
    replace(copy, item, moved, new Set());
  }
  return copy;
}

function clone(value: unknown, seen: Map<unknown, unknown>): unknown {
  if (typeof value === 'symbol') throw refused(`${String(value)} could not be cloned.`);
  if (typeof value === 'function') throw refused(`${String(value)} could not be cloned.`);
  if (typeof value !== 'object' || value === null) return value;
  const known = seen.get(value);
  if (known !== undefined) return known;
  const keep = <T>(copy: T): T => {
    seen.set(value, copy);
    return copy;
  };
  if (Array.isArray(value)) {
    const copy = keep(new Array<unknown>(value.length));
    for (const key of Object.keys(value)) put(copy, key, clone(value[key as never], seen));
    return copy;
  }
  if (value instanceof Date) return keep(new Date(value.getTime()));
  if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
  if (value instanceof Boolean || value instanceof Number || value instanceof String || value instanceof BigInt) {
    return keep(Object(value.valueOf()) as unknown);
  }
  if (value instanceof Map) {
    const copy = keep(new Map<unknown, unknown>());
    for (const [key, item] of [...value]) copy.set(clone(key, seen), clone(item, seen));
    return copy;
  }
  if (value instanceof Set) {
    const copy = keep(new Set<unknown>());
    for (const item of [...value]) copy.add(clone(item, seen));
    return copy;
  }
  if (value instanceof ArrayBuffer) return keep(value.slice(0));
  if (ArrayBuffer.isView(value)) {
    const buffer = clone(value.buffer, seen) as ArrayBuffer;
    const length = value instanceof DataView ? value.byteLength : (value as Uint8Array).length;
    const View = viewOf(value);
    return keep(new View(buffer, value.byteOffset, length));
  }
  if (value instanceof Error) return keep(cloneError(value, seen));
  const tag = Object.prototype.toString.call(value);
  if (tag !== '[object Object]') throw refused(`${tag.replace('[object ', '#<').replace(']', '>')} could not be cloned.`);
  const copy = keep({});
  for (const [key, item] of Object.entries(value)) put(copy, key, clone(item, seen));
  return copy;
}

/** Defines an own property of any name: assigning to `__proto__` would change the prototype. */
function put(object: object, key: string, value: unknown): void {
  if (key === '__proto__') Object.defineProperty(object, key, { configurable: true, enumerable: true, value, writable: true });
  else (object as Record<string, unknown>)[key] = value;
}

type View = new (buffer: ArrayBuffer, offset: number, length: number) => ArrayBufferView;

/** The built-in class of a view, whatever its subclass. */
function viewOf(value: ArrayBufferView): View {
  if (value instanceof DataView) return DataView as unknown as View;
  return (globalThis as unknown as Record<string, View>)[(value as Uint8Array)[Symbol.toStringTag]]!;
}

function cloneError(error: Error, seen: Map<unknown, unknown>): Error {
  const Kind = Object.hasOwn(ERRORS, error.name) ? ERRORS[error.name]! : Error;
  const copy = new Kind(error.message);
  if ('stack' in error) Object.defineProperty(copy, 'stack', { configurable: true, value: error.stack, writable: true });
  if ('cause' in error) copy.cause = clone(error.cause, seen);
  return copy;
}

/** Replaces a buffer by another one everywhere in a copy. */
function replace(value: unknown, from: unknown, to: ArrayBuffer, seen: Set<unknown>): void {
  if (typeof value !== 'object' || value === null || seen.has(value)) return;
  seen.add(value);
  const entries = value instanceof Map ? [...value] : Object.entries(value);
  for (const [key, item] of entries) {
    let next: unknown = item;
    if (item === from) next = to;
    else if (ArrayBuffer.isView(item) && item.buffer === from) next = new (viewOf(item))(to, 0, (item as Uint8Array).length);
    else replace(item, from, to, seen);
    if (next === item) continue;
    if (value instanceof Map) value.set(key, next);
    else put(value, key as string, next);
  }
}

function refused(message: string): DOMException {
  return new DOMException(message, 'DataCloneError');
}
