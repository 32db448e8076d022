/** How what rules ask of other systems reaches the server, which does it as far as `allow` of `[workflow]` names it. */
import { host } from '../../script/host.js';
import { promiseOf } from '../../script/waits.js';

/** What is asked, as the server reads it. */
export interface Operation {
  readonly op: string;
  readonly [name: string]: unknown;
}

/** That another system could not be asked, or has refused. */
export class ClientError extends Error {
  /** `not_allowed`, `timeout`, `too_long`, `refused`, `failed` or `unsupported`. */
  readonly code: string;

  constructor(message: string, code: string) {
    super(message);
    this.name = 'ClientError';
    this.code = code;
  }
}

/** What an operation has come to. */
interface Outcome<V> {
  readonly value: V;
  readonly error?: { readonly code: string; readonly message: string };
}

/** Has an operation done. What has been begun and is not over ends with the run. */
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
