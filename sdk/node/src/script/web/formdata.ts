/** Form data (XMLHttpRequest, section 4). */
import { Blob, File } from './blob.js';

type Value = string | File;

export class FormData {
  #entries: [name: string, value: Value][] = [];

  append(name: string, value: unknown, fileName?: string): void {
    this.#entries.push([String(name), entryOf(value, fileName)]);
  }

  delete(name: string): void {
    this.#entries = this.#entries.filter(([other]) => other !== name);
  }

  get(name: string): Value | null {
    return this.#entries.find(([other]) => other === name)?.[1] ?? null;
  }

  getAll(name: string): Value[] {
    return this.#entries.filter(([other]) => other === name).map(([, value]) => value);
  }

  has(name: string): boolean {
    return this.#entries.some(([other]) => other === name);
  }

  set(name: string, value: unknown, fileName?: string): void {
    const at = this.#entries.findIndex(([other]) => other === name);
    const entry: [string, Value] = [String(name), entryOf(value, fileName)];
    if (at < 0) {
      this.#entries.push(entry);
      return;
    }
    this.#entries = this.#entries.filter(([other], index) => other !== name || index === at);
    this.#entries[at] = entry;
  }

  forEach(callback: (value: Value, name: string, form: FormData) => void, self?: unknown): void {
    for (const [name, value] of this) callback.call(self, value, name, this);
  }

  *entries(): Generator<[string, Value]> {
    for (const [name, value] of this.#entries) yield [name, value];
  }

  *keys(): Generator<string> {
    for (const [name] of this.#entries) yield name;
  }

  *values(): Generator<Value> {
    for (const [, value] of this.#entries) yield value;
  }

  [Symbol.iterator](): Generator<[string, Value]> {
    return this.entries();
  }

  get [Symbol.toStringTag](): string {
    return 'FormData';
  }
}

function entryOf(value: unknown, fileName: string | undefined): Value {
  if (!(value instanceof Blob)) return String(value).toWellFormed();
  if (value instanceof File && fileName === undefined) return value;
  return new File([value], fileName ?? 'blob', { type: value.type });
}
