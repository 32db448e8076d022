/**
 * Keys as glsdb writes them. Elements of arrays have keys such as `[000002]` there; in the store they are the elements of a real
 * array, so that an array may have any length and a member may be called `[0]`.
 */
import type { StoreNode } from '../store/node.js';
import { subscriptText } from '../store/path.js';

/** How keys of array elements are written. */
export interface KeyStyle {
  digits: number;
  pad: string;
}

const ELEMENT = /^\[(\d*)\]$/;

/** The index that a key says, `undefined` when it is not that of an element. */
export function indexOf(key: string): number | undefined {
  const found = ELEMENT.exec(key);
  return found === null || found[1] === '' ? undefined : Number(found[1]);
}

/** The key of an array's element. */
export function elementKey(index: number | string, { digits, pad }: KeyStyle): string {
  return `[${String(index).padStart(digits, pad)}]`;
}

/** Paths that were taken apart: programs have few that they use again and again. */
const split = new Map<string, readonly string[]>();
const SPLIT_MAX = 256;

/** Takes a path such as `Person.1.tags[0]` apart; `#056` stands for a dot. */
export function splitPath(path: string): readonly string[] {
  let keys = split.get(path);
  if (keys === undefined) {
    keys = (path.match(/\[\d+\]|[^\][.]+/g) ?? []).map((key) => key.replaceAll('#056', '.'));
    if (split.size >= SPLIT_MAX) split.clear();
    split.set(path, keys);
  }
  return keys;
}

/** Puts one together. */
export function joinPath(keys: readonly string[]): string {
  return keys.reduce((path, key) => {
    const index = indexOf(key);
    if (index !== undefined) return `${path}[${index}]`;
    return `${path}${path === '' ? '' : '.'}${key.replaceAll('.', '#056')}`;
  }, '');
}

/** A key as text; as in glsdb, one that is written as JavaScript writes numbers between -1 and 1 is such a number. */
export function keyText(key: unknown): string {
  if (typeof key === 'number') return subscriptText(key);
  const text = String(key);
  if (!text.includes('.') || !/^-?0\.\d*[1-9]$/.test(text)) return text;
  return text.replace('0.', '.');
}

/** The steps in the store of a key below a node: an element of an array, or a member, which may look like one. */
export function stepOf(parent: StoreNode, key: string): string | number {
  const index = indexOf(key);
  if (index === undefined) return key;
  return !parent.isArray && parent.at(key).exists ? key : index;
}
