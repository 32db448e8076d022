import { filledText, isNothing, text } from './arguments.js';

/** A message, or a function that returns one. */
type Message = string | (() => string);

/**
 * Assertions for rules: a failed one throws an error with the message, in which each `%s` or `%d` is replaced by the next argument, and
 * `%%` by a percent sign. Methods whose names end in `Of` build the message from a name.
 */
export class Assert {
  static isTrue(expression: unknown, message: Message, ...args: unknown[]): void {
    check(truth(expression), message, args);
  }

  static isTrueOf(expression: unknown, argName: string): void {
    check(truth(expression), () => `${text(argName, 'argName')} does not hold`);
  }

  static isNull(object: unknown, message: Message, ...args: unknown[]): void {
    check(isNothing(object), message, args);
  }

  static isNullOf(object: unknown, argName: string): void {
    check(isNothing(object), () => `${text(argName, 'argName')} has to be null`);
  }

  /** Returns the value. */
  static notNull<T>(object: T, message: Message, ...args: unknown[]): NonNullable<T> {
    check(!isNothing(object), message, args);
    return object as NonNullable<T>;
  }

  static notNullOf<T>(object: T, argName: string): NonNullable<T> {
    return Assert.notNull(object, required(argName));
  }

  /** Accepts a string that is not blank, and returns it. */
  static hasText<T>(value: T, message: Message, ...args: unknown[]): T {
    check(typeof value === 'string' && value.trim() !== '', message, args);
    return value;
  }

  static hasTextOf<T>(value: T, argName: string): T {
    return Assert.hasText(value, required(argName));
  }

  static doesNotContain(textToSearch: string | null, substring: string | null, message: Message, ...args: unknown[]): void {
    if (isNothing(textToSearch) || isNothing(substring) || substring === '') return;
    check(!text(textToSearch, 'textToSearch').includes(text(substring, 'substring')), message, args);
  }

  static doesNotContainOf(textToSearch: string | null, substring: string | null, argName: string): void {
    Assert.doesNotContain(textToSearch, substring, () => `${text(argName, 'argName')} must not have \`${substring}\` in it`);
  }

  /** Accepts a non-empty array, `Map`, `Set` or object, and returns it. */
  static notEmpty<T>(collection: T, message: Message, ...args: unknown[]): T {
    check(sizeOf(collection) > 0, message, args);
    return collection;
  }

  static notEmptyOf<T>(collection: T, argName: string): T {
    return Assert.notEmpty(collection, () => `${text(argName, 'argName')} must not be empty`);
  }

  /** Accepts an array without `null` elements, or no array at all. */
  static noNullElements(array: readonly unknown[] | null, message: Message, ...args: unknown[]): void {
    check(isNothing(array) || (Array.isArray(array) && !array.some(isNothing)), message, args);
  }

  static noNullElementsOf(array: readonly unknown[] | null, argName: string): void {
    Assert.noNullElements(array, () => `${text(argName, 'argName')} must not have null in it`);
  }
}

function truth(expression: unknown): boolean {
  if (typeof expression === 'boolean') return expression;
  throw new TypeError(`\`expression\` is true or false, and not a ${typeof expression}`);
}

function check(holds: boolean, message: Message, args: readonly unknown[] = []): void {
  if (!holds) throw new Error(typeof message === 'function' ? String(message()) : formatted(message, args));
}

/** Inserts the arguments into a message; placeholders without an argument stay. */
function formatted(message: string, args: readonly unknown[]): string {
  if (isNothing(message)) return 'a condition does not hold';
  let next = 0;
  return text(message, 'message').replace(/%[sd%]/g, (place) => {
    if (place === '%%') return '%';
    return next < args.length ? String(args[next++]) : place;
  });
}

function required(argName: string): () => string {
  return () => `${filledText(argName, 'argName')} is required`;
}

function sizeOf(collection: unknown): number {
  if (typeof collection !== 'object' || collection === null) return 0;
  if (Array.isArray(collection)) return collection.length;
  if (collection instanceof Map || collection instanceof Set) return collection.size;
  return Object.keys(collection).length;
}
