/** Writes paths and other arguments into the memory shared with the addon. */
import { StoreError } from './error.js';
import { area } from './addon.js';
import { START } from './native.js';

/**
 * One step of a path. `1`, `1n` and `'1'` are the same subscript; `'01'` is a different one. Numbers sort first, by value; then
 * all other texts, by their UTF-8 bytes.
 */
export type Subscript = string | number | bigint;

/** Longest text written character by character; the runtime's function is faster for longer ones. */
const SHORT = 64;
/** Maximum length of a subscript's text; the store limits the path as a whole. */
const TEXT_MAX = 4096;
/** End of the room for paths; the rest of the area is for values. */
const PATHS_END = 49_152;
const INTEGER = 0xfffe;
const DOUBLE = 0xffff;

const numbers = new DataView(new ArrayBuffer(8));
const numberBytes = new Uint8Array(numbers.buffer);

/** The path that is currently at the start of the area, and its end. */
let owner: readonly Subscript[] | undefined;
let ownerEnd = START;

/** The steps that `putSteps` left at the start of the area, and their ends: a common prefix need not be written again. */
const steps: unknown[] = [];
const ends: number[] = [];
let stepsLeft = 0;

/** Counts writes to the area: compare it before and after running foreign code to see whether that used the area. */
export let uses = 0;

/** Writes a path, unless it is still there from the previous call; returns its end. */
export function putPath(path: readonly Subscript[]): number {
  uses++;
  if (owner === path) return ownerEnd;
  owner = undefined;
  stepsLeft = 0;
  let at = START;
  for (let index = 0; index < path.length; index++) at = putSubscript(at, path[index]!);
  owner = path;
  ownerEnd = at;
  return at;
}

/** Claims the start of the area for other content; returns its position. */
export function takePlace(): number {
  uses++;
  owner = undefined;
  stepsLeft = 0;
  return START;
}

/** Writes a single text at the start of the area. */
export function putAlone(text: string): number {
  return putSubscript(takePlace(), text);
}

/** Writes the path of a global and the first `count` of further steps; returns its end. */
export function putSteps(global: string, further: readonly unknown[], count: number): number {
  uses++;
  owner = undefined;
  const left = stepsLeft;
  // Reset until all steps are written, because one may be rejected.
  stepsLeft = 0;
  let at = START;
  let index = 0;
  let step: unknown = global;
  while (index < left && index <= count && steps[index] === step) {
    at = ends[index]!;
    step = further[index++];
  }
  for (; index <= count; step = further[index++]) {
    at = putSubscript(at, step as Subscript);
    steps[index] = step;
    ends[index] = at;
  }
  stepsLeft = count + 1;
  return at;
}

/** Writes a whole path after existing content. */
export function appendPath(at: number, path: readonly Subscript[]): number {
  for (let index = 0; index < path.length; index++) at = putSubscript(at, path[index]!);
  return at;
}

/** Writes one step of a path; returns its end. */
export function putSubscript(at: number, subscript: Subscript): number {
  if (at > PATHS_END) throw new StoreError('key', `the path has more than ${PATHS_END} bytes`);
  if (typeof subscript === 'string') return putText(at, subscript);
  if (typeof subscript === 'number') {
    const bytes = area;
    if ((subscript | 0) === subscript) {
      bytes[at] = INTEGER & 0xff;
      bytes[at + 1] = INTEGER >> 8;
      bytes[at + 2] = subscript;
      bytes[at + 3] = subscript >> 8;
      bytes[at + 4] = subscript >> 16;
      bytes[at + 5] = subscript >> 24;
      return at + 6;
    }
    bytes[at] = DOUBLE & 0xff;
    bytes[at + 1] = DOUBLE >> 8;
    numbers.setFloat64(0, subscript, true);
    bytes.set(numberBytes, at + 2);
    return at + 10;
  }
  if (typeof subscript === 'bigint') return putText(at, subscript.toString());
  const found = subscript === null ? 'null' : typeof subscript;
  throw new StoreError('key', `a subscript is a string, a number or a bigint, not ${found}`);
}

/** The parts of a number in JavaScript's notation: sign, digits before and after the point, exponent. */
const NUMBER = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/;

/**
 * A subscript as the store returns it: M writes numbers without an exponent and without a 0 before the point. Other texts are unchanged.
 */
export function subscriptText(subscript: Subscript): string {
  const text = String(subscript);
  if (typeof subscript !== 'number' || (subscript | 0) === subscript) return text;
  const found = NUMBER.exec(text);
  if (found === null) return text;
  const [, sign, whole = '', fraction = '', exponent = '0'] = found;
  const digits = whole === '0' ? fraction : whole + fraction;
  const point = (whole === '0' ? 0 : whole.length) + Number(exponent);
  if (point <= 0) return `${sign}.${'0'.repeat(-point)}${digits}`;
  if (point >= digits.length) return `${sign}${digits}${'0'.repeat(point - digits.length)}`;
  return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
}

/** Writes the position that a page of records returned, whose characters are bytes. */
export function putPlace(at: number, place: string): number {
  return at + area.latin1Write(place, at, area.length - at);
}

function putText(at: number, text: string): number {
  const length = text.length;
  if (length > SHORT) return putLongText(at, text);
  const bytes = area;
  let to = at + 2;
  for (let index = 0; index < length; index++) {
    const code = text.charCodeAt(index);
    if (code > 127) return putLongText(at, text);
    bytes[to++] = code;
  }
  bytes[at] = length;
  bytes[at + 1] = 0;
  return to;
}

function putLongText(at: number, text: string): number {
  if (text.length > TEXT_MAX) throw new StoreError('key', `a subscript has ${text.length} characters (at most ${TEXT_MAX})`);
  checkText(text);
  const length = area.utf8Write(text, at + 2, area.length - at - 2);
  area[at] = length;
  area[at + 1] = length >> 8;
  return at + 2 + length;
}

/** Rejects text that UTF-8 cannot represent. */
export function checkText(text: string): void {
  if (text.isWellFormed()) return;
  throw new StoreError('not_text', `the text ${JSON.stringify(text.slice(0, 40))} has half a surrogate pair`);
}
