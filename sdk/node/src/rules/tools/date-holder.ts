import { filledText, isNothing, wholeNumber } from './arguments.js';

const PATTERN_MAX = 256;
const AMOUNT_MAX = 2_147_483_647;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The number of digits of each pattern field: the maximum when parsing, the minimum (with leading zeros) when formatting. */
const FIELDS: Readonly<Record<string, number>> = Object.freeze({ yyyy: 4, MM: 2, dd: 2, HH: 2, mm: 2, ss: 2, SSS: 3 });
const ACCEPTED = "yyyy, MM, dd, HH, mm, ss, SSS and text in '' are accepted";

/** A date for rules; in JSON it is `2023-02-11T09:24:02.123+00:00`. */
export class RuleDate extends Date {
  override toJSON(): string {
    // An invalid date becomes null in JSON.
    return (Number.isNaN(this.getTime()) ? null : this.toISOString().replace('Z', '+00:00')) as string;
  }
}

/** A part of a pattern: a field or literal text. */
type Part = { field: string } | { text: string };

/**
 * Dates and times in UTC. Patterns are Java's, with at most 256 characters and the fields `yyyy`, `MM`, `dd`, `HH`, `mm`, `ss` and `SSS`.
 */
export class DateHolder {
  /** The class of the dates returned here. */
  static readonly RuleDate = RuleDate;

  /** Milliseconds since 1970. */
  static currentMillis(): number {
    return Date.now();
  }

  /** Nanoseconds of a monotonic clock, for measuring durations. */
  static currentNanoTime(): number {
    return Math.round(performance.now() * 1_000_000);
  }

  static getDate(): Date {
    return new RuleDate();
  }

  /** Parses a date; the whole text must match the pattern. `null` for a blank text. */
  static parseDate(dateString: string | null, pattern: string | null): Date | null {
    if (isNothing(dateString) || isNothing(pattern) || (typeof dateString === 'string' && dateString.trim() === '')) return null;
    return parsed(filledText(dateString, 'dateString'), pattern);
  }

  static formatDate(pattern: string | null): string | null;
  /** The date may also be given in milliseconds since 1970. */
  static formatDate(date: Date | number | null, pattern: string | null): string | null;
  static formatDate(...args: [unknown, unknown?]): string | null {
    const [date, pattern] = args.length === 1 ? [new RuleDate(), args[0]] : args;
    if (isNothing(date) || isNothing(pattern)) return null;
    return formatted(dateOf(date, 'date'), partsOf(pattern));
  }

  /**
   * The current time with one field changed by an amount. The field is a constant of Java's `Calendar`: 1 years, 2 months, 3 and 4 weeks, 5
   * to 7 days,
   * 8 weeks, 9 half days, 10 and 11 hours, 12 minutes, 13 seconds, 14 milliseconds. `null` without a pattern, which is not used otherwise.
   */
  static getDateOf(calendarField: number, amount: number, pattern: string | null): Date | null {
    if (isNothing(pattern)) return null;
    filledText(pattern, 'pattern');
    return changed(new RuleDate(), calendarField, amount);
  }

  /** Same as `getDateOf`, formatted as text. */
  static getFormatDateOf(calendarField: number, amount: number, pattern: string | null): string | null {
    if (isNothing(pattern)) return null;
    return formatted(changed(new RuleDate(), calendarField, amount), partsOf(pattern));
  }

  /**
   * The number of whole units between two dates, negative if the second is earlier: `y` or `yy` for years of 360 days, `M` or `MM` for
   * months of 30 days, `d` or `dd` for days, `h`, `hh`, `H` or `HH` for hours, `m` or `mm` for minutes, `s` or `ss` for seconds. `Y` and
   * `D` mean `y` and `d`.
   */
  static getDistanceOf(before: Date | number | null, after: Date | number | null, pattern: string | null): number | null {
    if (isNothing(before) || isNothing(after) || isNothing(pattern)) return null;
    const distance = dateOf(after, 'after').getTime() - dateOf(before, 'before').getTime();
    // Adding 0 turns -0 into 0.
    return Math.trunc(distance / unitOf(pattern)) + 0;
  }
}

function unitOf(pattern: string): number {
  switch (pattern) {
    case 'y':
    case 'yy':
    case 'Y':
    case 'YY':
      return 360 * DAY;
    case 'M':
    case 'MM':
      return 30 * DAY;
    case 'd':
    case 'dd':
    case 'D':
    case 'DD':
      return DAY;
    case 'h':
    case 'hh':
    case 'H':
    case 'HH':
      return HOUR;
    case 'm':
    case 'mm':
      return MINUTE;
    case 's':
    case 'ss':
      return SECOND;
    default:
      throw new RangeError(`\`${pattern}\` is no unit of time; yy, MM, dd, HH, mm and ss are`);
  }
}

function dateOf(value: unknown, name: string): Date {
  const date = typeof value === 'number' ? new Date(value) : value;
  if (!(date instanceof Date)) throw new TypeError(`\`${name}\` is a date or milliseconds since 1970, and not a ${typeof value}`);
  if (Number.isNaN(date.getTime())) throw new RangeError(`\`${name}\` is no date that there is`);
  return date;
}

function partsOf(value: unknown): Part[] {
  const pattern = filledText(value, 'pattern');
  if (pattern.length > PATTERN_MAX) throw new RangeError(`a pattern has at most ${PATTERN_MAX} characters, and this one has ${pattern.length}`);
  // A run of one letter; text in quotes, where a quote is doubled; or anything else.
  const found = pattern.matchAll(/([A-Za-z])\1*|'((?:[^']|'')*)'|'|[^A-Za-z']+/gu);
  return Array.from(found, ([part, letter, quoted]) => {
    if (letter !== undefined && Object.hasOwn(FIELDS, part)) return { field: part };
    if (letter !== undefined) throw new RangeError(`the pattern \`${pattern}\` has \`${part}\`; ${ACCEPTED}`);
    if (part === "'") throw new RangeError(`the pattern \`${pattern}\` has a quote that is not closed`);
    // Two quotes with nothing between them stand for one.
    return { text: quoted === undefined ? part : part === "''" ? "'" : quoted.replaceAll("''", "'") };
  });
}

function formatted(date: Date, parts: readonly Part[]): string {
  return parts
    .map((part) => ('text' in part ? part.text : String(Math.abs(fieldOf(date, part.field))).padStart(FIELDS[part.field]!, '0')))
    .join('');
}

function fieldOf(date: Date, field: string): number {
  switch (field) {
    case 'yyyy':
      return date.getUTCFullYear();
    case 'MM':
      return date.getUTCMonth() + 1;
    case 'dd':
      return date.getUTCDate();
    case 'HH':
      return date.getUTCHours();
    case 'mm':
      return date.getUTCMinutes();
    case 'ss':
      return date.getUTCSeconds();
    default:
      return date.getUTCMilliseconds();
  }
}

function parsed(dateString: string, pattern: string): Date {
  const refusal = (): RangeError => new RangeError(`\`${dateString.slice(0, PATTERN_MAX)}\` is no date that \`${pattern}\` describes`);
  const fields = new Map<string, number>();
  let at = 0;
  for (const part of partsOf(pattern)) {
    if ('text' in part) {
      if (!dateString.startsWith(part.text, at)) throw refusal();
      at += part.text.length;
      continue;
    }
    const digits = /^[0-9]+/.exec(dateString.slice(at, at + FIELDS[part.field]!))?.[0];
    if (digits === undefined) throw refusal();
    at += digits.length;
    fields.set(part.field, Number(digits));
  }
  if (at < dateString.length) throw refusal();
  const of = (field: string, otherwise: number): number => fields.get(field) ?? otherwise;
  const date = new RuleDate(0);
  date.setUTCFullYear(of('yyyy', 1970), of('MM', 1) - 1, of('dd', 1));
  date.setUTCHours(of('HH', 0), of('mm', 0), of('ss', 0), of('SSS', 0));
  // An out-of-range field, such as the 30th of February, has been normalized to another date.
  for (const [field, value] of fields) if (fieldOf(date, field) !== value) throw refusal();
  return date;
}

/** Changes a field of a date in place and returns the date. @internal */
export function changed(date: Date, calendarField: number, amount: number): Date {
  wholeNumber(calendarField, 'calendarField', 1, 14);
  wholeNumber(amount, 'amount', -AMOUNT_MAX, AMOUNT_MAX);
  if (calendarField <= 2) {
    const months = date.getUTCMonth() + (calendarField === 1 ? 12 * amount : amount);
    const day = date.getUTCDate();
    date.setUTCMonth(months, 1);
    const last = new Date(date);
    last.setUTCMonth(last.getUTCMonth() + 1, 0);
    date.setUTCDate(Math.min(day, last.getUTCDate()));
  } else {
    date.setTime(date.getTime() + amount * millisecondsOf(calendarField));
  }
  return dateOf(date, 'amount');
}

function millisecondsOf(calendarField: number): number {
  switch (calendarField) {
    case 5:
    case 6:
    case 7:
      return DAY;
    case 9:
      return 12 * HOUR;
    case 10:
    case 11:
      return HOUR;
    case 12:
      return MINUTE;
    case 13:
      return SECOND;
    case 14:
      return 1;
    default:
      return 7 * DAY;
  }
}
