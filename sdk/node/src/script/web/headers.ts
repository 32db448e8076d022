/** Headers (Fetch, section 5.1). */
import { FIELD_VALUE, TOKEN } from '../../grammar.js';

const OUTER_SPACE = /^[\t\n\r ]+|[\t\n\r ]+$/g;

export type HeadersInit = Headers | Iterable<readonly [string, string]> | Readonly<Record<string, string>>;

export class Headers {
  /** Values by lower-case name. */
  readonly #values = new Map<string, string[]>();

  constructor(init?: HeadersInit | null) {
    if (init === undefined || init === null) return;
    if (typeof init !== 'object') throw new TypeError('headers are made of an object or of pairs');
    const entries = Symbol.iterator in init ? init : Object.entries(init);
    for (const pair of entries as Iterable<Iterable<string>>) {
      const [name, value, ...more] = [...pair];
      if (value === undefined || more.length > 0) throw new TypeError('each pair of headers is a name and a value');
      this.append(name!, value);
    }
  }

  append(name: string, value: string): void {
    const [key, text] = [nameOf(name), valueOf(name, value)];
    const values = this.#values.get(key);
    if (values === undefined) this.#values.set(key, [text]);
    else values.push(text);
  }

  delete(name: string): void {
    this.#values.delete(nameOf(name));
  }

  get(name: string): string | null {
    return this.#values.get(nameOf(name))?.join(', ') ?? null;
  }

  getSetCookie(): string[] {
    return [...(this.#values.get('set-cookie') ?? [])];
  }

  has(name: string): boolean {
    return this.#values.has(nameOf(name));
  }

  set(name: string, value: string): void {
    this.#values.set(nameOf(name), [valueOf(name, value)]);
  }

  forEach(callback: (value: string, name: string, headers: Headers) => void, self?: unknown): void {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  *entries(): Generator<[string, string]> {
    for (const name of [...this.#values.keys()].sort()) {
      const values = this.#values.get(name)!;
      if (name !== 'set-cookie') yield [name, values.join(', ')];
      else for (const value of values) yield [name, value];
    }
  }

  *keys(): Generator<string> {
    for (const [name] of this) yield name;
  }

  *values(): Generator<string> {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator](): Generator<[string, string]> {
    return this.entries();
  }

  get [Symbol.toStringTag](): string {
    return 'Headers';
  }
}

function nameOf(name: unknown): string {
  const text = String(name);
  if (!TOKEN.test(text)) throw new TypeError(`${JSON.stringify(text)} is not a header name`);
  return text.toLowerCase();
}

function valueOf(name: string, value: unknown): string {
  const text = String(value).replace(OUTER_SPACE, '');
  if (!FIELD_VALUE.test(text)) throw new TypeError(`the value ${JSON.stringify(text)} of header ${name} has characters HTTP does not allow`);
  return text;
}
