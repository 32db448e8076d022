/** Encodes what a handler threw, to send it to the sender of the message. */
import { types } from 'node:util';
import { encode, type Encoded } from './message.js';

/** At most this many links of a chain of `cause`s are sent. */
const CAUSES_MAX = 8;

/** An error as plain data. */
export interface ThrownError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | null;
  /** `code`, `status` and other own members that can be sent; a `cause` that is an error is plain data too. */
  readonly members: Readonly<Record<string, unknown>>;
}

/** Encodes an error or any other thrown value. */
export function encodeThrown(thrown: unknown): Encoded {
  const plain = plainThrown(thrown);
  try {
    return encode(plain);
  } catch {
    return encode({ ...plain, members: {} });
  }
}

/** Leaves out members that cannot be read. */
function plainThrown(thrown: unknown, depth = CAUSES_MAX): ThrownError {
  if (!isError(thrown)) return { name: 'Error', message: textOf(thrown), stack: null, members: {} };
  const members: Record<string, unknown> = {};
  for (const name of read(() => Object.keys(thrown)) ?? []) {
    const value = read(() => (thrown as unknown as Record<string, unknown>)[name]);
    if (name !== 'stack' && isSendable(value)) members[name] = value;
  }
  const cause = read(() => thrown.cause);
  if (isError(cause)) {
    if (depth > 0) members['cause'] = plainThrown(cause, depth - 1);
    else delete members['cause'];
  } else if (cause !== undefined && isSendable(cause)) {
    members['cause'] = cause;
  }
  const stack = read(() => thrown.stack);
  return { name: textOf(read(() => thrown.name)), message: textOf(read(() => thrown.message) ?? ''), stack: typeof stack === 'string' ? stack : null, members };
}

function isError(value: unknown): value is Error {
  return read(() => value instanceof Error || types.isNativeError(value)) === true;
}

function isSendable(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return typeof value !== 'function' && typeof value !== 'symbol';
  try {
    encode(value);
    return true;
  } catch {
    return false;
  }
}

function read<V>(get: () => V): V | undefined {
  try {
    return get();
  } catch {
    return undefined;
  }
}

function textOf(value: unknown): string {
  try {
    return String(value);
  } catch {
    return 'something was thrown that has no text';
  }
}
