/** `console`: output goes to the server's log, with the script's name and the request's id. */
import { host } from '../host.js';
import { step } from '../pending-operations.js';

const DEBUG = 0;
const INFO = 1;
const WARN = 2;
const ERROR = 3;
/** Longer lines are cut, in characters. */
const LINE_MAX = 65_536;
/** Maximum number of counters and timers; beyond it, all are reset. */
const NAMES_MAX = 1000;

type Inspect = (value: unknown, depth?: number) => string;

const counts = new Map<string, number>();
const timers = new Map<string, number>();
let indent = '';

/** Loaded when first needed. */
let loaded: Inspect | undefined;

function inspect(value: unknown, depth?: number): string {
  loaded ??= host.module('dist/script/web/inspect.js')['inspect'] as Inspect;
  return loaded(value, depth);
}

function write(level: number, values: readonly unknown[]): void {
  let text = indent + format(values).replaceAll('\n', `\n${indent}`);
  if (text.length > LINE_MAX) text = `${text.slice(0, LINE_MAX)}... (cut: it had ${text.length} characters)`;
  host.log(step.call, level, text, '');
}

/** Replaces the placeholders in the first value by the next values, and appends the rest, separated by spaces (Console, section 2.2). */
export function format(values: readonly unknown[]): string {
  const [first, ...rest] = values;
  const words: string[] = [];
  if (typeof first === 'string' && rest.length > 0) {
    words.push(
      first.replace(/%[sdifjoOc%]/g, (place) => {
        if (place === '%%') return '%';
        return rest.length === 0 ? place : filled(place, rest.shift());
      }),
    );
  } else if (values.length > 0) {
    words.push(shown(first));
  }
  return [...words, ...rest.map(shown)].join(' ');
}

function shown(value: unknown): string {
  return typeof value === 'string' ? value : inspect(value);
}

function filled(place: string, value: unknown): string {
  const isObject = typeof value === 'object' && value !== null;
  switch (place) {
    case '%s':
      return typeof value === 'bigint' ? `${value}n` : isObject ? inspect(value, 0) : String(value);
    case '%d':
      return isObject || typeof value === 'symbol' ? 'NaN' : typeof value === 'bigint' ? `${value}n` : String(Number(value));
    case '%i':
      return isObject || typeof value === 'symbol' ? 'NaN' : String(Number.parseInt(String(value), 10));
    case '%f':
      return typeof value === 'symbol' ? 'NaN' : String(Number.parseFloat(String(value)));
    case '%j':
      return json(value);
    case '%c':
      return '';
    default:
      return inspect(value);
  }
}

function json(value: unknown): string {
  try {
    return String(JSON.stringify(value));
  } catch {
    return '[Circular]';
  }
}

/** Stores a value under a name, within the limit. */
function remember(map: Map<string, number>, name: string, value: number): void {
  if (map.size >= NAMES_MAX) map.clear();
  map.set(name, value);
}

function passed(name: string): string | null {
  const begun = timers.get(name);
  return begun === undefined ? null : `${name}: ${(performance.now() - begun).toFixed(3)}ms`;
}

export const console = {
  debug: (...values: unknown[]) => write(DEBUG, values),
  log: (...values: unknown[]) => write(INFO, values),
  info: (...values: unknown[]) => write(INFO, values),
  warn: (...values: unknown[]) => write(WARN, values),
  error: (...values: unknown[]) => write(ERROR, values),
  dir: (value: unknown) => write(INFO, [inspect(value)]),
  table: (value: unknown) => write(INFO, [inspect(value)]),
  trace: (...values: unknown[]) => write(ERROR, [`Trace: ${format(values)}\n${new Error().stack ?? ''}`]),
  assert(condition?: unknown, ...values: unknown[]) {
    if (condition) return;
    const [first, ...rest] = values;
    if (values.length === 0) write(ERROR, ['Assertion failed']);
    else if (typeof first === 'string') write(ERROR, [`Assertion failed: ${first}`, ...rest]);
    else write(ERROR, ['Assertion failed:', ...values]);
  },
  count(name: unknown = 'default') {
    const count = (counts.get(String(name)) ?? 0) + 1;
    remember(counts, String(name), count);
    write(INFO, [`${String(name)}: ${count}`]);
  },
  countReset: (name: unknown = 'default') => void counts.delete(String(name)),
  time: (name: unknown = 'default') => remember(timers, String(name), performance.now()),
  timeLog(name: unknown = 'default', ...values: unknown[]) {
    write(INFO, [passed(String(name)) ?? `no timer ${String(name)}`, ...values]);
  },
  timeEnd(name: unknown = 'default') {
    write(INFO, [passed(String(name)) ?? `no timer ${String(name)}`]);
    timers.delete(String(name));
  },
  group(...values: unknown[]) {
    if (values.length > 0) write(INFO, values);
    if (indent.length < 40) indent += '  ';
  },
  groupCollapsed: (...values: unknown[]) => console.group(...values),
  groupEnd() {
    indent = indent.slice(2);
  },
};
