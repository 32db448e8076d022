/** Validates the arguments of tools. Errors name the argument, the accepted values and the value given. */

/** Longest text that a tool processes in JavaScript, in UTF-16 units. */
export const TEXT_MAX = 10 * 1024 * 1024;

/** Accepts a string, which may be empty. */
export function text(value: unknown, name: string): string {
  if (typeof value === 'string') return value;
  throw new TypeError(`\`${name}\` is a text, and not ${describe(value)}`);
}

/** Accepts a string that is not blank. */
export function filledText(value: unknown, name: string): string {
  if (text(value, name).trim() === '') throw new TypeError(`\`${name}\` is a text with something in it, and this one is empty`);
  return value as string;
}

/** Whether the value is null or undefined; for these, most tools return null. */
export function isNothing(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

export function wholeNumber(value: unknown, name: string, min: number, max: number): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= min && value <= max) return value;
  throw new RangeError(`\`${name}\` is a whole number from ${min} to ${max}, and not ${describe(value)}`);
}

export function finiteNumber(value: unknown, name: string, min: number, max: number): number {
  if (typeof value === 'number' && value >= min && value <= max) return value;
  throw new RangeError(`\`${name}\` is a number from ${min} to ${max}, and not ${describe(value)}`);
}

export function callable<T extends (...values: never[]) => unknown>(value: unknown, name: string): T {
  if (typeof value === 'function') return value as T;
  throw new TypeError(`\`${name}\` is a function, and not ${describe(value)}`);
}

/** A value as shown in error messages. */
function describe(value: unknown): string {
  if (value === null || typeof value === 'number' || typeof value === 'boolean' || value === undefined) return String(value);
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
