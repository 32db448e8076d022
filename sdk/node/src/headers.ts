import { HEADERS, field, fieldValues, pairs, type Source } from './source.js';

/**
 * The headers of a request: the reading half of the web's `Headers`. Names are compared without regard to case; the bytes
 * of values appear as Latin-1 text. Decoded on first access.
 *
 * ```js
 * request.headers.get('content-type')        // 'application/json', or null
 * for (const [name, value] of request.headers) …   // as received, repeated names repeated
 * ```
 */
export class RequestHeaders implements Iterable<[name: string, value: string]> {
  readonly #source: Source;
  #pairs: readonly string[] | undefined;

  /** @internal */
  constructor(source: Source) {
    this.#source = source;
  }

  /** `[name, value, name, value, ...]`, names in lower case. */
  static #decodedOf(headers: RequestHeaders): readonly string[] {
    return (headers.#pairs ??= pairs(headers.#source, HEADERS));
  }

  /** The header's value, or null. The values of a repeated header are joined by `, ` (those of `cookie` by `; `). */
  get(name: string): string | null {
    return field(this.#source, name.toLowerCase());
  }

  /** Each value of the header, in the order received. */
  getAll(name: string): string[] {
    return fieldValues(this.#source, name.toLowerCase());
  }

  /** Whether the request has the header. */
  has(name: string): boolean {
    return fieldValues(this.#source, name.toLowerCase()).length > 0;
  }

  /** Pairs of lower-case name and value as received; a repeated header appears repeatedly. */
  *entries(): Generator<[name: string, value: string]> {
    const pairs = RequestHeaders.#decodedOf(this);
    for (let index = 0; index < pairs.length; index += 2) yield [pairs[index]!, pairs[index + 1]!];
  }

  /** The names, in lower case, each as often as it was received. */
  *keys(): Generator<string> {
    for (const [name] of this) yield name;
  }

  /** The values, in the order received. */
  *values(): Generator<string> {
    for (const [, value] of this) yield value;
  }

  [Symbol.iterator](): Generator<[name: string, value: string]> {
    return this.entries();
  }

  /** An object with one member for each name, as `get` gives it. */
  toJSON(): Record<string, string> {
    const object = Object.create(null) as Record<string, string>;
    for (const name of this.keys()) object[name] ??= this.get(name)!;
    return object;
  }
}
