/** Values by their keys, read when they are first asked for. When it is full, the one that was not asked for the longest makes room. */
export class Cache {
  #values = new Map();
  #most;
  #read;

  /** `read` gives pairs of key and value for a list of keys. */
  constructor(most, read) {
    this.#most = most;
    this.#read = read;
  }

  /** The values of keys, in their order. */
  async get(keys) {
    const missing = new Set(keys.filter((key) => !this.#values.has(key)));
    const read = new Map(missing.size > 0 ? await this.#read([...missing]) : []);
    const values = keys.map((key) => read.get(key) ?? this.#values.get(key));
    keys.forEach((key, index) => this.#put(key, values[index]));
    return values;
  }

  #put(key, value) {
    // A Map has its keys in the order in which they came: the first is the oldest.
    this.#values.delete(key);
    this.#values.set(key, value);
    if (this.#values.size > this.#most) this.#values.delete(this.#values.keys().next().value);
  }
}
