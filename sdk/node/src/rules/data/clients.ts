/** Sends operations on other systems to the server, which performs those that `allow` of `[workflow]` permits. */
import { host } from '../../script/host.js';
import { promiseOf } from '../../script/pending-operations.js';

/** An operation in the form that the server parses. */
export interface Operation {
  readonly op: string;
  readonly [name: string]: unknown;
}

/** Another system could not be reached, or refused the operation. */
export class ClientError extends Error {
  /** `not_allowed`, `timeout`, `too_long`, `refused`, `failed` or `unsupported`. */
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.name = 'ClientError';
    this.code = code;
  }
}

/** The outcome of an operation. */
interface Outcome<V> {
  readonly value: V;
  readonly error?: { readonly code: string; readonly message: string };
}

/** Performs an operation. Operations still in progress at the end of the run are ended with it. */
export function ask<V>(operation: Operation): Promise<V> {
  return promiseOf(
    (outcome) => {
      const { value, error } = outcome as Outcome<V>;
      if (error !== undefined) throw new ClientError(error.message, error.code);
      return value;
    },
    (call, wait) => host.client(call, wait, JSON.stringify(operation)),
  );
}
