import { host } from '../../script/host.js';
import { finiteNumber, isNothing, text, wholeNumber } from './arguments.js';

/** Longest random text, in characters. */
const COUNT_MAX = 65_536;
const INT_MAX = 2_147_483_647;
const FLOAT_MAX = 3.4028234663852886e38;
const CODE_POINTS = 0x11_0000;
const WORDS_MAX = 16_384;
/** How often a character is drawn for each one that is wanted, when only some are taken. */
const TRIES = 1000;

const DIGITS = '0123456789';
const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';

/** Random numbers and texts, from the system's source. Texts have at most 65,536 characters. */
export class RandomHolder {
  static nextBoolean(): boolean {
    return new Words(1).below(2) === 1;
  }

  /** From `startInclusive`, 0 when left out, up to but not `endExclusive`, 2^31 - 1 when left out. Where both are the same it is them. */
  static nextInt(startInclusive: number = 0, endExclusive: number = INT_MAX): number {
    return wholeBetween(startInclusive, endExclusive, INT_MAX);
  }

  /** The same up to 2^53 - 1, beyond which not every whole number is one of JavaScript's. */
  static nextLong(startInclusive: number = 0, endExclusive: number = Number.MAX_SAFE_INTEGER): number {
    return wholeBetween(startInclusive, endExclusive, Number.MAX_SAFE_INTEGER);
  }

  /** From `startInclusive`, 0 when left out, up to `endExclusive`, the largest number when left out. */
  static nextDouble(startInclusive: number = 0, endExclusive: number = Number.MAX_VALUE): number {
    checkRange(startInclusive, endExclusive, Number.MAX_VALUE, finiteNumber);
    return below(startInclusive + (endExclusive - startInclusive) * new Words(2).fraction(), startInclusive, endExclusive);
  }

  /** The same with a precision of 24 bits. */
  static nextFloat(startInclusive: number = 0, endExclusive: number = FLOAT_MAX): number {
    checkRange(startInclusive, endExclusive, FLOAT_MAX, finiteNumber);
    const part = new Words(1).below(2 ** 24) / 2 ** 24;
    return below(Math.fround(startInclusive + (endExclusive - startInclusive) * part), startInclusive, endExclusive);
  }

  static random(count: number): string;
  static random(count: number, chars: string | readonly string[]): string;
  static random(count: number, letters: boolean, numbers: boolean): string;
  static random(count: number, start: number, end: number, letters: boolean, numbers: boolean, ...chars: string[]): string;
  /**
   * A text of any characters that are written; of those given; of letters or digits; or of those from `start` up to but not `end`: numbers in
   * Unicode, and places in `chars` where these are given. 0 and 0 are all.
   */
  static random(count: number, ...how: unknown[]): string {
    checkCount(count);
    const [first, second] = how;
    if (typeof first === 'string' || Array.isArray(first)) return from(charactersOf(how), count);
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
    return from(some, count);
  }

  /** Characters from the space to `~`: so many, or at least so many and less than `maxLengthExclusive`. */
  static randomAscii(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return from(characters(0x20, 0x7f), lengthOf(minLengthInclusive, maxLengthExclusive));
  }

  static randomAlphabetic(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return from([...LETTERS], lengthOf(minLengthInclusive, maxLengthExclusive));
  }

  static randomAlphanumeric(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return from([...DIGITS, ...LETTERS], lengthOf(minLengthInclusive, maxLengthExclusive));
  }

  /** Characters from `!` to `~`. */
  static randomGraph(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return from(characters(0x21, 0x7f), lengthOf(minLengthInclusive, maxLengthExclusive));
  }

  static randomNumeric(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return from([...DIGITS], lengthOf(minLengthInclusive, maxLengthExclusive));
  }

  /** Characters from the space to `~`. */
  static randomPrint(minLengthInclusive: number, maxLengthExclusive?: number): string {
    return from(characters(0x20, 0x7f), lengthOf(minLengthInclusive, maxLengthExclusive));
  }
}

/** Random words of 32 bits, some at a time. */
class Words {
  #words = new Uint32Array(0);
  #at = 0;
  #expected: number;

  /** How many will be asked for, about. */
  constructor(expected: number) {
    this.#expected = expected;
  }

  next(): number {
    if (this.#at === this.#words.length) {
      this.#words = new Uint32Array(host.random(4 * Math.min(Math.max(this.#expected, 1), WORDS_MAX)));
      this.#expected -= this.#words.length;
      this.#at = 0;
    }
    return this.#words[this.#at++]!;
  }

  /** A whole number below another, each one as likely as the others; that is at most 2^53. */
  below(end: number): number {
    if (end > 2 ** 32) {
      const last = 2 ** 53 - (2 ** 53 % end);
      for (;;) {
        const number = (this.next() >>> 11) * 2 ** 32 + this.next();
        if (number < last) return number % end;
      }
    }
    const last = 2 ** 32 - (2 ** 32 % end);
    for (;;) {
      const number = this.next();
      if (number < last) return number % end;
    }
  }

  /** From 0 up to but not 1. */
  fraction(): number {
    return this.below(2 ** 53) / 2 ** 53;
  }
}

type NumberCheck = (value: unknown, name: string, least: number, most: number) => number;

function checkRange(start: number, end: number, most: number, check: NumberCheck): void {
  check(start, 'startInclusive', 0, most);
  check(end, 'endExclusive', start, most);
}

function wholeBetween(start: number, end: number, most: number): number {
  checkRange(start, end, most, wholeNumber);
  return start === end ? start : start + new Words(2).below(end - start);
}

/** A number of a range, whose end it may have been rounded to. */
function below(number: number, start: number, end: number): number {
  return number < end ? number : start;
}

function checkCount(count: number): void {
  wholeNumber(count, 'count', 0, COUNT_MAX);
}

function lengthOf(least: number, end: number | undefined): number {
  if (isNothing(end)) {
    checkCount(least);
    return least;
  }
  wholeNumber(least, 'minLengthInclusive', 0, COUNT_MAX);
  wholeNumber(end, 'maxLengthExclusive', least, COUNT_MAX + 1);
  return wholeBetween(least, end, INT_MAX);
}

function characters(start: number, end: number): string[] {
  return Array.from({ length: end - start }, (_, at) => String.fromCodePoint(start + at));
}

/** The characters of texts, in an array or one after the other. */
function charactersOf(chars: readonly unknown[]): string[] {
  return chars.flat().flatMap((some) => [...text(some, 'chars')]);
}

function from(characters: readonly string[], count: number): string {
  if (count === 0) return '';
  if (characters.length === 0) throw new RangeError('there is no character to choose from');
  const words = new Words(count);
  return Array.from({ length: count }, () => characters[words.below(characters.length)]).join('');
}

function bounds(start: unknown, end: unknown, most: number): [number, number] {
  if (start === 0 && end === 0) return [0, most];
  wholeNumber(start, 'start', 0, most);
  wholeNumber(end, 'end', start as number, most);
  return [start as number, end as number];
}

/** Characters in a range of Unicode, drawn until there are enough. */
function drawn(count: number, start: number, end: number, letters: boolean, numbers: boolean): string {
  const words = new Words(count);
  let found = '';
  let left = count;
  for (let tries = count * TRIES; left > 0 && tries > 0 && end > start; tries--) {
    const character = String.fromCodePoint(start + words.below(end - start));
    if (!isWanted(character, letters, numbers)) continue;
    found += character;
    left--;
  }
  if (left > 0) throw new RangeError(`from ${start} to ${end} there are no characters, or next to none, of the wanted kind`);
  return found;
}

/** Without a kind any character that is written; halves of pairs, and places without a character, are none. */
function isWanted(character: string, letters: boolean, numbers: boolean): boolean {
  if (letters && /^\p{L}$/u.test(character)) return true;
  if (numbers && /^\p{Nd}$/u.test(character)) return true;
  return !letters && !numbers && !/^\p{C}$/u.test(character);
}
