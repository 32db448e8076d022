/** Replaces `source.ts` in scripts: a request is the number of its call, and the server holds its parts. */
import type { BodySource, User } from '../request.js';
import { host } from './host.js';

export const PATH = 1;
export const QUERY = 2;
export const ROUTE = 3;
export const PARAMS = 4;
export const HEADERS = 5;
export const PEER = 6;
export const ID = 7;
const IDENTITY = 8;

export const methodLength = host.methodLength;
export const part = host.part;
export const pairs = host.pairs;
export const fieldValues = host.fieldValues;
export const field = host.field;
export const bodyText = host.bodyText;
export const hasBody = host.hasBody;

export function user(call: number): User | null {
  const identity = host.part(call, IDENTITY);
  return identity === '' ? null : (JSON.parse(identity) as User);
}

/** Never called: a script gets method and path together with the call. */
export function methodAndPath(call: number): string {
  return host.part(call, 0) + host.part(call, PATH);
}

export function isPlain(call: number, _: string, at: number): boolean {
  return host.isPlain(call, at);
}

export function bodyBytes(call: number): Uint8Array {
  return new Uint8Array(host.bodyBytes(call));
}

/** Always null: a script is called once the whole body has arrived. */
export function more(): BodySource | null {
  return null;
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  return parts[0] ?? new Uint8Array(0);
}

export function utf8(bytes: Uint8Array): string {
  return host.utf8Slice(bytes, 0, bytes.length);
}
