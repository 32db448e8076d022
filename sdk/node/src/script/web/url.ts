/** URLs (URL). The server parses them. */
import { host } from '../host.js';

/** The parts of a URL, as the host orders them; after them comes the origin, which cannot be set. */
const PARTS = ['href', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash'] as const;

export class URL {
  declare href: string;
  declare protocol: string;
  declare username: string;
  declare password: string;
  declare host: string;
  declare hostname: string;
  declare port: string;
  declare pathname: string;
  declare search: string;
  declare hash: string;
  #parts: string[];
  #params: URLSearchParams | undefined;

  static {
    for (const [index, part] of PARTS.entries()) {
      Object.defineProperty(URL.prototype, part, {
        configurable: true,
        get(this: URL) {
          return this.#parts[index];
        },
        set(this: URL, value: unknown) {
          if (!this.#set(part, value) && part === 'href') throw invalid(String(value));
          if (part === 'href' || part === 'search') this.#tellParams();
        },
      });
    }
  }

  constructor(url: unknown, base?: unknown) {
    const parts = base === undefined ? host.url(String(url)) : host.url(String(url), String(base));
    if (parts === undefined) throw invalid(String(url));
    this.#parts = parts;
  }

  static canParse(url: unknown, base?: unknown): boolean {
    return (base === undefined ? host.url(String(url)) : host.url(String(url), String(base))) !== undefined;
  }

  static parse(url: unknown, base?: unknown): URL | null {
    return URL.canParse(url, base) ? new URL(url, base) : null;
  }

  get origin(): string {
    return this.#parts[PARTS.length]!;
  }

  get searchParams(): URLSearchParams {
    if (this.#params === undefined) {
      this.#params = new URLSearchParams(this.search);
      URLSearchParams.bind(this.#params, (text) => this.#set('search', text));
    }
    return this.#params;
  }

  toString(): string {
    return this.href;
  }

  toJSON(): string {
    return this.href;
  }

  #set(part: string, value: unknown): boolean {
    const parts = host.urlWith(this.href, part, String(value));
    if (parts === undefined) return false;
    this.#parts = parts;
    return true;
  }

  #tellParams(): void {
    if (this.#params !== undefined) URLSearchParams.replace(this.#params, this.search);
  }
}

function invalid(url: string): TypeError {
  return Object.assign(new TypeError('Invalid URL'), { code: 'ERR_INVALID_URL', input: url });
}

type Init = string | Iterable<readonly [string, string]> | Readonly<Record<string, string>>;

export class URLSearchParams {
  /** Alternating names and values. */
  #pairs: string[] = [];
  #changed: ((text: string) => void) | undefined;

  constructor(init: Init = '') {
    if (typeof init === 'object' && init !== null) {
      if (init instanceof URLSearchParams) {
        this.#pairs = [...init.#pairs];
      } else if (Symbol.iterator in init) {
        for (const pair of init) {
          const items = [...pair];
          if (items.length !== 2) throw new TypeError('each pair of a query is a name and a value');
          this.#pairs.push(text(items[0]), text(items[1]));
        }
      } else {
        for (const [name, value] of Object.entries(init)) this.#pairs.push(text(name), text(value));
      }
    } else {
      this.#parse(String(init));
    }
  }

  /** Connects params to their URL. @internal */
  static bind(params: URLSearchParams, changed: (text: string) => void): void {
    params.#changed = changed;
  }

  /** @internal */
  static replace(params: URLSearchParams, search: string): void {
    params.#parse(search);
  }

  get size(): number {
    return this.#pairs.length / 2;
  }

  append(name: unknown, value: unknown): void {
    this.#pairs.push(text(name), text(value));
    this.#tell();
  }

  delete(name: unknown, value?: unknown): void {
    const [wanted, only] = [text(name), value === undefined ? undefined : text(value)];
    const pairs = this.#pairs;
    this.#pairs = [];
    for (let at = 0; at < pairs.length; at += 2) {
      if (pairs[at] !== wanted || (only !== undefined && pairs[at + 1] !== only)) this.#pairs.push(pairs[at]!, pairs[at + 1]!);
    }
    this.#tell();
  }

  get(name: unknown): string | null {
    const wanted = text(name);
    for (let at = 0; at < this.#pairs.length; at += 2) if (this.#pairs[at] === wanted) return this.#pairs[at + 1]!;
    return null;
  }

  getAll(name: unknown): string[] {
    const wanted = text(name);
    const values: string[] = [];
    for (let at = 0; at < this.#pairs.length; at += 2) if (this.#pairs[at] === wanted) values.push(this.#pairs[at + 1]!);
    return values;
  }

  has(name: unknown, value?: unknown): boolean {
    return value === undefined ? this.get(name) !== null : this.getAll(name).includes(text(value));
  }

  set(name: unknown, value: unknown): void {
    const wanted = text(name);
    const pairs = this.#pairs;
    this.#pairs = [];
    let isSet = false;
    for (let at = 0; at < pairs.length; at += 2) {
      if (pairs[at] !== wanted) this.#pairs.push(pairs[at]!, pairs[at + 1]!);
      else if (!isSet) {
        this.#pairs.push(wanted, text(value));
        isSet = true;
      }
    }
    if (!isSet) this.#pairs.push(wanted, text(value));
    this.#tell();
  }

  sort(): void {
    const sorted = [...this].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    this.#pairs = sorted.flat();
    this.#tell();
  }

  forEach(callback: (value: string, name: string, params: URLSearchParams) => void, self?: unknown): void {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  *entries(): Generator<[string, string]> {
    for (let at = 0; at < this.#pairs.length; at += 2) yield [this.#pairs[at]!, this.#pairs[at + 1]!];
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

  toString(): string {
    return host.formEncode(this.#pairs);
  }

  get [Symbol.toStringTag](): string {
    return 'URLSearchParams';
  }

  #parse(query: string): void {
    const form = query.startsWith('?') ? query.slice(1) : query;
    this.#pairs = form === '' ? [] : host.formDecode(form);
  }

  #tell(): void {
    this.#changed?.(this.toString());
  }
}

function text(value: unknown): string {
  return String(value).toWellFormed();
}
