// JSON as the store has it: numbers keep their text, however many digits they have, and errors say where they are. `JSON.parse` would make
// 9007199254740993 another reference, and of an amount with many digits another amount.

const DEPTH_MAX = 500;

/** A number, as its text. */
export class Exact {
  constructor(text) {
    this.text = text;
  }

  toString() {
    return this.text;
  }
}

/** What is wrong with a text, and where; line and column count from 1. */
export class JsonError extends Error {
  constructor(what, text, at) {
    const before = text.slice(0, at).split('\n');
    const [line, column] = [before.length, before.at(-1).length + 1];
    super(`${what}, in line ${line}, column ${column}`);
    Object.assign(this, { at, line, column });
  }
}

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const PLAIN = /[^"\\\u0000-\u001f]*/y;
const ESCAPES = { '"': '"', '\\': '\\', '/': '/', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t' };

/** Reads a text; objects have no prototype. */
export function parse(text) {
  let at = 0;
  const fail = (what, where = at) => {
    throw new JsonError(what, text, where);
  };
  const found = () => (at < text.length ? `, not ${JSON.stringify(String.fromCodePoint(text.codePointAt(at)))}` : '; the text ends');
  const space = () => {
    while (at < text.length && ' \t\n\r'.includes(text[at])) at += 1;
  };
  const string = () => {
    const begin = at;
    let value = '';
    for (at += 1; ; ) {
      PLAIN.lastIndex = at;
      value += PLAIN.exec(text)[0];
      at = PLAIN.lastIndex;
      if (at >= text.length) fail('a text has no closing quote', begin);
      const character = text[at];
      at += 1;
      if (character === '"') return value;
      if (character !== '\\') fail('a text has a line break or another control character: write \\n', at - 1);
      const escape = text[at];
      at += 1;
      if (escape === 'u' && /^[0-9a-fA-F]{4}$/.test(text.slice(at, at + 4))) {
        value += String.fromCharCode(parseInt(text.slice(at, at + 4), 16));
        at += 4;
      } else if (Object.hasOwn(ESCAPES, escape ?? '')) {
        value += ESCAPES[escape];
      } else {
        fail('a backslash begins nothing that JSON knows', at - 2);
      }
    }
  };
  const members = (depth) => {
    const object = Object.create(null);
    at += 1;
    space();
    if (text[at] === '}') return (at += 1), object;
    for (;;) {
      space();
      if (text[at] !== '"') fail(`a member's name in double quotes is expected${found()}`);
      const name = string();
      space();
      if (text[at] !== ':') fail(`\`:\` is expected${found()}`);
      at += 1;
      object[name] = value(depth);
      space();
      if (text[at] === '}') return (at += 1), object;
      if (text[at] !== ',') fail(`\`,\` or \`}\` is expected${found()}`);
      at += 1;
    }
  };
  const elements = (depth) => {
    const array = [];
    at += 1;
    space();
    if (text[at] === ']') return (at += 1), array;
    for (;;) {
      array.push(value(depth));
      space();
      if (text[at] === ']') return (at += 1), array;
      if (text[at] !== ',') fail(`\`,\` or \`]\` is expected${found()}`);
      at += 1;
    }
  };
  const value = (depth) => {
    if (depth > DEPTH_MAX) fail(`it is nested more than ${DEPTH_MAX} deep`);
    space();
    if (text[at] === '{') return members(depth + 1);
    if (text[at] === '[') return elements(depth + 1);
    if (text[at] === '"') return string();
    for (const [word, meaning] of [['true', true], ['false', false], ['null', null]]) {
      if (text.startsWith(word, at)) return (at += word.length), meaning;
    }
    NUMBER.lastIndex = at;
    const number = NUMBER.exec(text);
    if (number === null) fail(`a value is expected${found()}`);
    at = NUMBER.lastIndex;
    return new Exact(number[0]);
  };
  const whole = value(0);
  space();
  if (at < text.length) fail(`nothing more is expected${found()}`);
  return whole;
}

/** Writes a value, on several lines when an indent is given. */
export function stringify(value, indent = 0, begin = '') {
  if (value instanceof Exact) return value.text;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const inner = begin + ' '.repeat(indent);
  const parts = Array.isArray(value)
    ? value.map((element) => stringify(element, indent, inner))
    : Object.keys(value).map((name) => `${JSON.stringify(name)}:${indent > 0 ? ' ' : ''}${stringify(value[name], indent, inner)}`);
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  if (parts.length === 0) return open + close;
  return indent > 0 ? `${open}\n${inner}${parts.join(`,\n${inner}`)}\n${begin}${close}` : open + parts.join(',') + close;
}

/** Whether two values are written alike, whatever the order of their members. */
export function same(one, other) {
  return one === other || (one !== undefined && other !== undefined && ordered(one) === ordered(other));
}

function ordered(value) {
  if (value === null || typeof value !== 'object' || value instanceof Exact) return stringify(value);
  if (Array.isArray(value)) return `[${value.map(ordered).join(',')}]`;
  return `{${Object.keys(value).sort().map((name) => `${JSON.stringify(name)}:${ordered(value[name])}`).join(',')}}`;
}
