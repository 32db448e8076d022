/** Cheap type tests for the values that handlers return. */

/** Whether the value is a promise or another thenable. */
export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return value instanceof Promise || (isObject(value) && !isPlain(value) && typeof value['then'] === 'function');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** Whether the value is an object literal or an array, which is answered as JSON without further checks. */
export function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || Array.isArray(value);
}
