import type { server } from './server.js';

/** Classes of InterSystems, which this store does not support: each operation returns `''`, and `geterrormessage` says why. */
export class mclass {
  readonly #db: server;

  constructor(db: server, ..._args: unknown[]) {
    this.#db = db;
  }

  classmethod(..._args: unknown[]): string | null {
    return this.#none();
  }

  method(..._args: unknown[]): string | null {
    return this.#none();
  }

  getproperty(..._args: unknown[]): string | null {
    return this.#none();
  }

  setproperty(..._args: unknown[]): string | null {
    return this.#none();
  }

  closeinstance(..._args: unknown[]): string | null {
    return this.#none();
  }

  reset(..._args: unknown[]): string | null {
    return this.#none();
  }

  #none(): string | null {
    return this.#db.unsupported('classes of InterSystems');
  }
}
