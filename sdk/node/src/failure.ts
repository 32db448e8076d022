/** What a handler has thrown, on its way to whoever has sent the message. */
import { encode, type Encoded } from './message.js';

/** An error as plain members. */
export interface ThrownError {
  readonly name: string;
  readonly message: string;
  readonly stack: string | null;
  /** `code`, `status` and other members of its own that can be sent. */
  readonly members: Readonly<Record<string, unknown>>;
}

/** An error, or whatever else was thrown, encoded. */
export function encodeThrown(thrown: unknown): Encoded {
  const plain = plainThrown(thrown);
  try {
    return encode(plain);
  } catch {
    return encode({ ...plain, members: {} });
  }
}

function plainThrown(thrown: unknown): ThrownError {
  if (!(thrown instanceof Error)) return { name: 'Error', message: textOf(thrown), stack: null, members: {} };
  const members: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(thrown)) {
    if (typeof value !== 'function' && typeof value !== 'symbol') members[name] = value;
  }
  return { name: textOf(thrown.name), message: textOf(thrown.message), stack: thrown.stack ?? null, members };
}

function textOf(value: unknown): string {
  try {
    return String(value);
  } catch {
    return 'something was thrown that has no text';
  }
}
