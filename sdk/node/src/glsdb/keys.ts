/**
 * Keys in glsdb's format. There, elements of arrays have keys such as `[000002]`; in the store they are the elements of a real
 * array, so an array may have any length and a member may be named `[0]`.
 */
import type { StoreNode } from '../store/node.js';
import { subscriptText } from '../store/path.js';

/** The format of keys of array elements. */
export interface KeyStyle {
  digits: number;
  pad: string;
}

const ELEMENT = /^\[(\d*)\]$/;

/** The index in the key of an array element; `undefined` for any other key. */
export function indexOf(key: string): number | undefined {
  const found = ELEMENT.exec(key);
  return found === null || found[1] === '' ? undefined : Number(found[1]);
}

/** The key of an array element. */
export function elementKey(index: number | string, { digits, pad }: KeyStyle): string {
  return `[${String(index).padStart(digits, pad)}]`;
}

/** Cache of parsed paths: programs use the same few again and again. */
const split = new Map<string, readonly string[]>();
const SPLIT_MAX = 256;

/** Splits a path such as `Person.1.tags[0]`; `#056` stands for a dot. */
export function splitPath(path: string): readonly string[] {
  let keys = split.get(path);
  if (keys === undefined) {
    keys = (path.match(/\[\d+\]|[^\][.]+/g) ?? []).map((key) => key.replaceAll('#056', '.'));
    if (split.size >= SPLIT_MAX) split.clear();
    split.set(path, keys);
  }
  return keys;
}

/** The inverse of {@link splitPath}. */
export function joinPath(keys: readonly string[]): string {
  return keys.reduce((path, key) => {
    const index = indexOf(key);
    if (index !== undefined) return `${path}[${index}]`;
    return `${path}${path === '' ? '' : '.'}${key.replaceAll('.', '#056')}`;
  }, '');
}

/** A key as text. As in glsdb, text in JavaScript's notation for a number between -1 and 1 counts as that number. */
export function keyText(key: unknown): string {
  if (typeof key === 'number') return subscriptText(key);
  const text = String(key);
  if (!text.includes('.') || !/^-?0\.\d*[1-9]$/.test(text)) return text;
  return text.replace('0.', '.');
}

/** The store's subscript for a key below `parent`: the index of an array element, or a member name, which may look like one. */
export function stepOf(parent: StoreNode, key: string): string | number {
  const index = indexOf(key);
  if (index === undefined) return key;
  return !parent.isArray && parent.at(key).exists ? key : index;
}
