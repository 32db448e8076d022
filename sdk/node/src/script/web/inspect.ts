/** Values as human-readable text, in Node's format. The work is bounded, however large the value is. */

const DEPTH_MAX = 4;
const ITEMS_MAX = 100;
const STRING_MAX = 10_000;
/** A longer one-line form is split into several lines. */
const LINE_MAX = 72;
/** Stops once this much text has been produced. */
const TEXT_MAX = 65_536;
const PLAIN_KEY = /^[A-Za-z_$][\w$]*$/;
const CUSTOM = Symbol.for('nodejs.util.inspect.custom');

export function inspect(value: unknown, depth = DEPTH_MAX): string {
  return new Inspection().show(value, depth, '');
}

class Inspection {
  readonly #above = new Set<object>();
  #length = 0;

  show(value: unknown, depth: number, indent: string): string {
    const text = this.#show(value, depth, indent);
    this.#length += text.length;
    return text;
  }

  #show(value: unknown, depth: number, indent: string): string {
    switch (typeof value) {
      case 'string':
        return quoted(value.length > STRING_MAX ? `${value.slice(0, STRING_MAX)}...` : value);
      case 'bigint':
        return `${value}n`;
      case 'symbol':
        return value.toString();
      case 'number':
        return Object.is(value, -0) ? '-0' : String(value);
      case 'function':
        return functionText(value as { name: string });
      case 'object':
        return value === null ? 'null' : this.#object(value, depth, indent);
      default:
        return String(value);
    }
  }

  #object(value: object, depth: number, indent: string): string {
    if (this.#above.has(value)) return '[Circular *1]';
    if (this.#length > TEXT_MAX) return '...';
    this.#above.add(value);
    try {
      return this.#inside(value, depth, indent);
    } catch (error) {
      return `<cannot be shown: ${String(error)}>`;
    } finally {
      this.#above.delete(value);
    }
  }

  #inside(value: object, depth: number, indent: string): string {
    const custom = (value as { [CUSTOM]?: unknown })[CUSTOM];
    if (typeof custom === 'function') {
      const shown: unknown = custom.call(value, depth, {}, inspect);
      return typeof shown === 'string' ? shown : this.show(shown, depth, indent);
    }
    const name = nameOf(value);
    if (value instanceof Error) return errorText(value);
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
    if (value instanceof RegExp) return String(value);
    if (value instanceof Promise) return 'Promise {}';
    if (value instanceof ArrayBuffer) return `ArrayBuffer { byteLength: ${value.byteLength} }`;
    if (depth < 0) return Array.isArray(value) ? '[Array]' : `[${name || 'Object'}]`;
    const inner = `${indent}  `;
    const show = (item: unknown) => this.show(item, depth - 1, inner);
    if (Array.isArray(value)) return list('', '[', ']', limited(value, value.length, show), indent);
    if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
      const array = value as Uint8Array;
      return list(`${name}(${array.length})`, '[', ']', limited(array, array.length, show), indent);
    }
    if (value instanceof Set) return list(`${name}(${value.size})`, '{', '}', limited(value, value.size, show), indent);
    if (value instanceof Map) {
      const entry = ([key, item]: [unknown, unknown]) => `${show(key)} => ${show(item)}`;
      return list(`${name}(${value.size})`, '{', '}', limited(value, value.size, entry), indent);
    }
    return list(name, '{', '}', this.#members(value, show), indent);
  }

  #members(value: object, show: (item: unknown) => string): string[] {
    const keys = Reflect.ownKeys(value).filter((key) => Object.prototype.propertyIsEnumerable.call(value, key));
    const member = (key: string | symbol) => {
      const label = typeof key === 'symbol' ? `[${key.toString()}]` : PLAIN_KEY.test(key) ? key : quoted(key);
      const { get, set, value: item } = Object.getOwnPropertyDescriptor(value, key)!;
      if (get !== undefined) return `${label}: ${set === undefined ? '[Getter]' : '[Getter/Setter]'}`;
      return `${label}: ${set === undefined ? show(item) : '[Setter]'}`;
    };
    return limited(keys, keys.length, member);
  }
}

function limited<T>(items: Iterable<T>, count: number, show: (item: T) => string): string[] {
  const texts: string[] = [];
  for (const item of items) {
    if (texts.length === ITEMS_MAX) {
      texts.push(`... ${count - ITEMS_MAX} more item${count - ITEMS_MAX === 1 ? '' : 's'}`);
      break;
    }
    texts.push(show(item));
  }
  return texts;
}

function list(name: string, open: string, close: string, items: string[], indent: string): string {
  const label = name === '' ? '' : `${name} `;
  if (items.length === 0) return `${label}${open}${close}`;
  const length = items.reduce((sum, item) => sum + item.length + 2, label.length);
  if (length <= LINE_MAX && !items.some((item) => item.includes('\n'))) return `${label}${open} ${items.join(', ')} ${close}`;
  const inner = `${indent}  `;
  return `${label}${open}\n${items.map((item) => inner + item).join(',\n')}\n${indent}${close}`;
}

/** The name of a value's class, unless it is a plain object or array. */
function nameOf(value: object): string {
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype === null) return '[Object: null prototype]';
  if (prototype === Object.prototype || prototype === Array.prototype) return '';
  const { constructor } = value as { constructor?: { name?: unknown } };
  return typeof constructor?.name === 'string' ? constructor.name : '';
}

function functionText(value: { name: string }): string {
  const kind = /^class\b/.test(Function.prototype.toString.call(value)) ? 'class' : 'Function';
  return value.name === '' ? `[${kind} (anonymous)]` : kind === 'class' ? `[class ${value.name}]` : `[Function: ${value.name}]`;
}

/** An error with its stack and its causes. */
export function errorText(error: Error, depth = 0): string {
  const text = `${error.name}: ${error.message}\n${error.stack ?? ''}`.trimEnd();
  if (!(error.cause instanceof Error) || depth >= DEPTH_MAX) return text;
  return `${text}\ncaused by ${errorText(error.cause, depth + 1)}`;
}

function quoted(text: string): string {
  const mark = text.includes("'") && !text.includes('"') ? '"' : "'";
  const escaped = JSON.stringify(text).slice(1, -1).replaceAll('\\"', '"');
  return mark + (mark === "'" ? escaped.replaceAll("'", "\\'") : escaped) + mark;
}
