// What a field's type means: how its value is shown, how it is entered, and how records are searched by it.
import { kinds } from '../kinds.mjs';
import { h, longText } from './dom.mjs';
import { Exact, parse, stringify } from './json.mjs';

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/;
const REFERENCE = /^(0|[1-9]\d{0,19})$/;
const REFERENCE_MAX = 2n ** 64n - 1n;
const DATE = /^\d{4}-\d\d-\d\d$/;
const TIME = /^(\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?)(\.\d+)?Z$/;
/** Columns of a table, when the description does not say. */
const COLUMNS = 5;

const isText = (value) => typeof value === 'string';
const line = (type, more = {}) => (id, value) => h('input', { id, type, value: value === undefined ? '' : String(value), autocomplete: 'off', ...more });
const area = (rows, more = {}) => (id, value) => h('textarea', { id, rows, value, ...more });

/**
 * Of each type: whether a value can be entered in its way (others are entered as JSON), how its text is entered, and what is made of the text.
 * `read` gives undefined for nothing, and throws an Error that says what is wrong.
 */
const TYPES = {
  text: { fits: (value) => isText(value) && !/[\r\n]/.test(value), enter: line('text'), text: String, read: (text) => text },
  lines: { fits: isText, enter: (id, value) => area(Math.min(20, Math.max(5, value.split('\n').length + 1)))(id, value), text: String, read: (text) => text },
  number: {
    fits: (value) => value instanceof Exact,
    enter: line('text', { inputmode: 'decimal' }),
    text: String,
    read: (text) => {
      if (!NUMBER.test(text.trim())) throw new Error('A number is expected, such as 12 or -3.5.');
      return new Exact(text.trim());
    },
  },
  boolean: { fits: (value) => typeof value === 'boolean', text: String },
  date: {
    fits: (value) => isText(value) && DATE.test(value),
    enter: line('date'),
    text: String,
    read: (text) => text,
  },
  time: {
    fits: (value) => isText(value) && TIME.test(value),
    hint: 'In UTC.',
    enter: line('datetime-local', { step: 1 }),
    text: (value) => TIME.exec(value)[1],
    read: (text) => `${text.length === 16 ? `${text}:00` : text}Z`,
  },
  choice: {
    fits: isText,
    enter: (id, value, field) => {
      const options = [...new Set(['', ...(field.of ?? []), value])];
      return h('select', { id }, options.map((option) => h('option', { value: option, selected: option === value }, option === '' ? '—' : option)));
    },
    text: String,
    read: (text) => text,
  },
  record: {
    fits: (value) => value instanceof Exact && isReference(value.text),
    enter: line('text', { inputmode: 'numeric' }),
    text: String,
    read: (text) => {
      if (!isReference(text.trim())) throw new Error('A reference is expected: the number of a record.');
      return new Exact(text.trim());
    },
  },
  json: {
    fits: () => true,
    enter: (id, value) => area(4, { class: 'json', spellcheck: 'false' })(id, value),
    text: (value) => stringify(value, 2),
    read: (text) => parse(text),
  },
};

/** Whether a text is a reference: a whole number of 64 bits. */
export function isReference(text) {
  return REFERENCE.test(text) && BigInt(text) <= REFERENCE_MAX;
}

/** The fields of a kind, with everything that its description may leave out. */
export function fieldsOf(kind) {
  return Object.entries(kinds[kind].fields ?? {}).map(([name, field]) => {
    const type = Object.hasOwn(TYPES, field.type) ? field.type : 'json';
    return { ...field, name, type, label: field.label ?? words(name), path: pathOf(name) };
  });
}

/** Those that a table has columns for. */
export function columnsOf(kind) {
  const fields = fieldsOf(kind);
  const chosen = fields.filter((field) => field.list ?? !['lines', 'json'].includes(field.type));
  return fields.some((field) => field.list !== undefined) ? chosen : chosen.slice(0, COLUMNS);
}

/** `publishedAt` as people write it. */
function words(name) {
  const spaced = name.replace(/[_-]+/g, ' ').replace(/(\p{Ll}|\d)(\p{Lu})/gu, (_, one, two) => `${one} ${two.toLowerCase()}`);
  return spaced.charAt(0).toUpperCase() + spaced.slice(1);
}

/** A member's name as a path of TQL. */
function pathOf(name) {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : JSON.stringify(name);
}

/** What a record is called: what its first field says, or its reference. */
export function titleOf(kind, ref, value) {
  const text = value instanceof Exact ? value.text : value;
  return typeof text === 'string' && text.trim() !== '' ? clipped(text, 200) : `${kind} ${ref}`;
}

/** A value in a cell of a table: short, and text only. */
export function brief(field, value) {
  if (value === undefined || value === null) return '';
  if (field.type === 'boolean' && typeof value === 'boolean') return value ? 'yes' : 'no';
  if (field.type === 'time' && TYPES.time.fits(value)) return readable(value);
  return clipped(isText(value) ? value : stringify(value), 120);
}

/** A value by itself. */
export function shown(field, value) {
  if (value === undefined) return h('span', { class: 'nothing' }, '—');
  if (field.type === 'boolean' && typeof value === 'boolean') return value ? 'yes' : 'no';
  if (field.type === 'time' && TYPES.time.fits(value)) return h('time', { datetime: value }, readable(value));
  if (isText(value)) return h('span', { class: 'text' }, longText(value));
  if (value instanceof Exact) return value.text;
  return h('pre', {}, longText(stringify(value, 2)));
}

function readable(time) {
  return `${time.slice(0, -1).replace('T', ' ')} UTC`;
}

function clipped(text, most) {
  return text.length > most ? `${text.slice(0, most)}…` : text;
}

/** The expression for records with a text in one of their fields; undefined when no field can have it. */
export function searchFor(kind, needle) {
  const pattern = `'(?i)${needle.replace(/[\\^$.|?*+()[\]{}\-#&~]/g, '\\$&')}`;
  const expressions = fieldsOf(kind).flatMap(({ type, path }) => {
    if (['text', 'lines', 'choice', 'date'].includes(type)) return [['REGEX', path, pattern]];
    if (['number', 'record'].includes(type) && NUMBER.test(needle)) return [['EQ', path, new Exact(needle)]];
    return [];
  });
  return expressions.length > 1 ? ['OR', ...expressions] : expressions[0];
}

/** Whether {@link searchFor} finds anything in records of a kind. */
export function canSearch(kind) {
  return fieldsOf(kind).some(({ type }) => ['text', 'lines', 'choice', 'date'].includes(type));
}

/**
 * What a value is entered with: the elements, and `read`, which gives the value, undefined for none, or throws an Error that says what is wrong.
 * What nobody has touched is given back as it was, to the last digit.
 */
export function entry(field, id, value) {
  const { name, required = false } = field;
  const isAsked = value === undefined || TYPES[field.type].fits(value);
  const type = isAsked ? field.type : 'json';
  if (type === 'boolean') {
    const input = h('input', { id, type: 'checkbox', checked: value === true });
    return { input, type, text: () => String(input.checked), read: () => (input.checked === (value === true) && (value !== undefined || !field.isNew) ? value : input.checked) };
  }
  const { enter, text, read } = TYPES[type];
  const before = value === undefined ? '' : text(value);
  const input = enter(id, before, field);
  input.name = name;
  if (required) input.setAttribute('aria-required', 'true');
  // Browsers write what is entered in their own way: `\r\n`, or an empty value for one that they do not take.
  const initial = input.value;
  return {
    input,
    type,
    hint: TYPES[type].hint,
    text: () => input.value,
    read: () => {
      if (input.value === initial && (value !== undefined || !required)) {
        if (input.validity.badInput) throw new Error('This is not a whole date.');
        return value;
      }
      if (input.validity.badInput) throw new Error('This is not a whole date.');
      if (input.value.trim() === '') {
        if (required) throw new Error(`${field.label} is needed.`);
        return undefined;
      }
      return read(input.value);
    },
  };
}
