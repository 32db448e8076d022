/** Redis, with the names of Rengine. */
import { filledText, text, wholeNumber } from '../tools/arguments.js';
import { ask } from './clients.js';

const SECONDS_MAX = 10 * 365 * 24 * 3600;
const LOCK_MS = { fallback: 6000, min: 1, max: 24 * 3600_000 };
/** Maximum number of keys and arguments of a script. */
const PARAMETERS_MAX = 1000;

/** The Redis server of `[redis.NAME]`. Every method returns a promise. Values are stored as JSON and parsed when read. */
export class RedisFacade {
  readonly #name: string;

  constructor(name: string) {
    this.#name = name;
  }

  /** The value of a key; null if it does not exist. */
  async get(key: string): Promise<unknown> {
    return parsed(key, await this.#do<string | null>('GET', keyOf(key)));
  }

  /** Returns `OK`. A null value is not stored, and null is returned. */
  async set(key: string, value: unknown): Promise<string | null> {
    return this.#put(value, (json) => ['SET', keyOf(key), json], null);
  }

  async setex(key: string, value: unknown, seconds: number): Promise<string | null> {
    return this.#put(value, (json) => ['SET', keyOf(key), json, 'EX', secondsOf(seconds, 1)], null);
  }

  /** Returns 1 if the key did not exist, else 0. */
  async setnx(key: string, value: unknown): Promise<number> {
    return this.#put(value, (json) => ['SETNX', keyOf(key), json], 0);
  }

  /** Like `setnx`, for `seconds`: the key and its expiry are set atomically. */
  async setnxex(key: string, value: unknown, seconds: number): Promise<number> {
    const done = await this.#put<string | null>(value, (json) => ['SET', keyOf(key), json, 'EX', secondsOf(seconds, 1), 'NX'], null);
    return done === null ? 0 : 1;
  }

  /** Returns the number of keys removed. */
  async del(key: string): Promise<number> {
    return this.#do('DEL', keyOf(key));
  }

  /** Returns 1 if the key exists, else 0. */
  async expire(key: string, seconds: number): Promise<number> {
    return this.#do('EXPIRE', keyOf(key), secondsOf(seconds, -2));
  }

  /** The fields of a hash and their values. */
  async hgetAll(key: string): Promise<Record<string, unknown>> {
    const listed = await this.#do<string[]>('HGETALL', keyOf(key));
    const found: [string, unknown][] = [];
    for (let at = 0; at + 1 < listed.length; at += 2) found.push([listed[at]!, parsed(key, listed[at + 1]!)]);
    return Object.fromEntries(found);
  }

  async hget(key: string, field: string): Promise<unknown> {
    return parsed(key, await this.#do<string | null>('HGET', keyOf(key), filledText(field, 'field')));
  }

  /** Returns the number of fields added. */
  async hset(key: string, field: string, value: unknown): Promise<number> {
    return this.#put(value, (json) => ['HSET', keyOf(key), filledText(field, 'field'), json], 0);
  }

  async hsetnx(key: string, field: string, value: unknown): Promise<number> {
    return this.#put(value, (json) => ['HSETNX', keyOf(key), filledText(field, 'field'), json], 0);
  }

  /** Runs a Lua script and returns its result; the first `keyCount` parameters are keys. */
  async eval(script: string, keyCount: number, ...parameters: readonly string[]): Promise<unknown> {
    if (parameters.length > PARAMETERS_MAX) throw new RangeError(`a script has at most ${PARAMETERS_MAX} keys and arguments`);
    wholeNumber(keyCount, 'keyCount', 0, parameters.length);
    return this.#do('EVAL', filledText(script, 'script'), String(keyCount), ...parameters.map((each) => text(each, 'parameter')));
  }

  #do<V>(...command: readonly string[]): Promise<V> {
    return ask<V>({ op: 'redis', source: this.#name, command });
  }

  #put<V>(value: unknown, command: (json: string) => string[], none: V): Promise<V> {
    const json = value === null ? undefined : (JSON.stringify(value) as string | undefined);
    return json === undefined ? Promise.resolve(none) : this.#do<V>(...command(json));
  }
}

/** Locks in the first Redis server that `allow` names, or in another. */
export class RedisLockClient {
  /** A lock by name, not acquired yet. Once acquired, it expires after `timeoutMs`, and at the end of the run in any case. */
  getLock(name: string, timeoutMs: number = LOCK_MS.fallback, source: string | null = null): RedisLock {
    return new RedisLock(filledText(name, 'name'), wholeNumber(timeoutMs, 'timeoutMs', LOCK_MS.min, LOCK_MS.max), source);
  }
}

export class RedisLock {
  readonly #name: string;
  readonly #timeMs: number;
  readonly #source: string | null;
  #token: string | null = null;

  constructor(name: string, timeMs: number, source: string | null) {
    this.#name = name;
    this.#timeMs = timeMs;
    this.#source = source;
  }

  /** Acquires the lock; waits without limit until it is free. */
  async lock(): Promise<void> {
    await this.#take(null);
  }

  /** Acquires the lock if it is free or becomes free within `waitMs`; returns whether it did. */
  async tryLock(waitMs = 0): Promise<boolean> {
    return this.#take(wholeNumber(waitMs, 'waitMs', 0, LOCK_MS.max));
  }

  /** Releases the lock; returns false if it had expired. */
  async unlock(): Promise<boolean> {
    if (this.#token === null) throw new TypeError(`the lock \`${this.#name}\` is not held`);
    const token = this.#token;
    this.#token = null;
    return ask<boolean>({ op: 'unlock', token });
  }

  async #take(wait_ms: number | null): Promise<boolean> {
    if (this.#token !== null) throw new TypeError(`the lock \`${this.#name}\` is held already`);
    this.#token = await ask<string | null>({ op: 'lock', source: this.#source, key: this.#name, time_ms: this.#timeMs, wait_ms });
    return this.#token !== null;
  }
}

function keyOf(key: unknown): string {
  return filledText(key, 'key');
}

function secondsOf(seconds: unknown, min: number): string {
  return String(wholeNumber(seconds, 'seconds', min, SECONDS_MAX));
}

function parsed(key: string, value: string | null): unknown {
  if (value === null) return null;
  try {
    return JSON.parse(value) as unknown;
  } catch (error) {
    throw new SyntaxError(`the value of \`${key}\` is not JSON: ${(error as Error).message}`);
  }
}
