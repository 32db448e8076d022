import { host } from '../../script/host.js';
import { finiteNumber, isNothing, text, wholeNumber } from './arguments.js';

/** Longest random text, in characters. */
const COUNT_MAX = 65_536;
const INT_MAX = 2_147_483_647;
const FLOAT_MAX = 3.4028234663852886e38;
const CODE_POINTS = 0x11_0000;
/** Maximum number of draws per wanted character if some are rejected. */
const TRIES = 1000;

const DIGITS = '0123456789';
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const GRAPH = Array.from({ length: 0x7f - 0x21 }, (_, at) => String.fromCharCode(0x21 + at)).join('');
const PRINT = ` ${GRAPH}`;

/** Random numbers and texts from the system's random source. Texts have at most 65,536 characters. */
export class RandomHolder {
  static nextBoolean(): boolean {
    return host.randomBelow(2) === 1;
  }

  /** From `startInclusive` (default 0) to `endExclusive` (default 2^31 - 1), exclusive. If both are equal, returns that number. */
  static nextInt(startInclusive: number = 0, endExclusive: number = INT_MAX): number {
    return wholeBetween(startInclusive, endExclusive, INT_MAX);
  }

  /** Like `nextInt`, up to 2^53 - 1, beyond which JavaScript cannot represent every integer. */
  static nextLong(startInclusive: number = 0, endExclusive: number = Number.MAX_SAFE_INTEGER): number {
    return wholeBetween(startInclusive, endExclusive, Number.MAX_SAFE_INTEGER);
  }

  /** From `startInclusive` (default 0) to `endExclusive` (default: the largest number), exclusive. */
  static nextDouble(startInclusive: number = 0, endExclusive: number = Number.MAX_VALUE): number {
    checkRange(startInclusive, endExclusive, Number.MAX_VALUE, finiteNumber);
    return below(startInclusive + (endExclusive - startInclusive) * (host.randomBelow(2 ** 53) / 2 ** 53), startInclusive, endExclusive);
  }

  /** Like `nextDouble`, with a precision of 24 bits. */
  static nextFloat(startInclusive: number = 0, endExclusive: number = FLOAT_MAX): number {
    checkRange(startInclusive, endExclusive, FLOAT_MAX, finiteNumber);
    const part = host.randomBelow(2 ** 24) / 2 ** 24;
    return below(Math.fround(startInclusive + (endExclusive - startInclusive) * part), startInclusive, endExclusive);
  }

  static random(count: number): string;
  static random(count: number, chars: string | readonly string[]): string;
  static random(count: number, letters: boolean, numbers: boolean): string;
  static random(count: number, start: number, end: number, letters: boolean, numbers: boolean, ...chars: string[]): string;
  /**
   * A text of random characters: of any printable ones, of the given ones, of letters or digits, or of those from `start` to `end`
   * (exclusive), which are code points, or positions in `chars` if given. If both are 0, all are used.
   */
  static random(count: number, ...how: unknown[]): string {
    checkCount(count);
    const [first, second] = how;
    if (typeof first === 'string' || Array.isArray(first)) return host.randomText(charactersOf(how).join(''), count);
    if (typeof first !== 'number') return drawn(count, 0, CODE_POINTS, first === true, second === true);
    const [, , letters, numbers, ...chars] = how;
    const given = chars.filter((some) => !isNothing(some));
    if (given.length === 0) {
      const [start, end] = bounds(first, second, CODE_POINTS);
      return drawn(count, start, end, letters === true, numbers === true);
    }
    const characters = charactersOf(given);
    const [start, end] = bounds(first, second, characters.length);
    const some = characters.slice(start, end).filter((character) => isWanted(character, letters === true, numbers === true));
    return host.randomText(some.join(''), count);
  }

  /** Printable ASCII including the space: `minLengthInclusive` characters, or with a second argument a random number of them below that. */
  static randomAscii(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return host.randomText(PRINT, lengthOf(minLengthInclusive, maxLengthExclusive));
  }

  static randomAlphabetic(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return host.randomText(LETTERS, lengthOf(minLengthInclusive, maxLengthExclusive));
  }

  static randomAlphanumeric(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return host.randomText(DIGITS + LETTERS, lengthOf(minLengthInclusive, maxLengthExclusive));
  }

  /** ASCII characters from `!` to `~`. */
  static randomGraph(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return host.randomText(GRAPH, lengthOf(minLengthInclusive, maxLengthExclusive));
  }

  static randomNumeric(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return host.randomText(DIGITS, lengthOf(minLengthInclusive, maxLengthExclusive));
  }

  /** ASCII characters from the space to `~`. */
  static randomPrint(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return host.randomText(PRINT, lengthOf(minLengthInclusive, maxLengthExclusive));
  }
}

type NumberCheck = (value: unknown, name: string, min: number, max: number) => number;

function checkRange(start: number, end: number, max: number, check: NumberCheck): void {
  check(start, 'startInclusive', 0, max);
  check(end, 'endExclusive', start, max);
}

function wholeBetween(start: number, end: number, max: number): number {
  checkRange(start, end, max, wholeNumber);
  return start === end ? start : start + host.randomBelow(end - start);
}

/** Corrects a number that rounding has moved to the exclusive end of its range. */
function below(number: number, start: number, end: number): number {
  return number < end ? number : start;
}

function checkCount(count: number): void {
  wholeNumber(count, 'count', 0, COUNT_MAX);
}

function lengthOf(min: number, end: number | undefined): number {
  if (isNothing(end)) {
    checkCount(min);
    return min;
  }
  wholeNumber(min, 'minLengthInclusive', 0, COUNT_MAX);
  wholeNumber(end, 'maxLengthExclusive', min, COUNT_MAX + 1);
  return wholeBetween(min, end, INT_MAX);
}

/** The characters of strings or arrays of strings. */
function charactersOf(chars: readonly unknown[]): string[] {
  return chars.flat().flatMap((some) => [...text(some, 'chars')]);
}

function bounds(start: unknown, end: unknown, max: number): [number, number] {
  if (start === 0 && end === 0) return [0, max];
  wholeNumber(start, 'start', 0, max);
  wholeNumber(end, 'end', start as number, max);
  return [start as number, end as number];
}

/** Random characters from a range of code points, drawn until there are enough. */
function drawn(count: number, start: number, end: number, letters: boolean, numbers: boolean): string {
  let found = '';
  let left = count;
  for (let tries = count * TRIES; left > 0 && tries > 0 && end > start; tries--) {
    const character = String.fromCodePoint(start + host.randomBelow(end - start));
    if (!isWanted(character, letters, numbers)) continue;
    found += character;
    left--;
  }
  if (left > 0) throw new RangeError(`from ${start} to ${end} there are no characters, or next to none, of the wanted kind`);
  return found;
}

/**
 * Whether a character is a letter or digit as wanted. If neither is, any printable character is; surrogates and unassigned code points
 * never are.
 */
function isWanted(character: string, letters: boolean, numbers: boolean): boolean {
  if (letters && /^\p{L}$/u.test(character)) return true;
  if (numbers && /^\p{Nd}$/u.test(character)) return true;
  return !letters && !numbers && !/^\p{C}$/u.test(character);
}
