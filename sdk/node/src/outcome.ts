/** What handlers return, told apart as cheaply as can be. */

/** Whether it has to be waited for. */
export function isPromise(value: unknown): value is PromiseLike<unknown> {
  return value instanceof Promise || (isObject(value) && !isPlain(value) && typeof value['then'] === 'function');
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

/** An object literal or array: JSON without a further look. */
export function isPlain(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || Array.isArray(value);
}
