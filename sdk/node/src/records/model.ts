/** Where the controllers of {@link rest} have their records from. */
import type { Store } from '../store/store.js';

/** Characters of an entity tag, with its quotes. */
export const TAG_LENGTH = 34;

/** What is done to a record by its reference. */
export type Change = 'update' | 'patch' | 'delete';

/** What became of that: it is done; there is no such record; its tag is not as the conditions demand; it would be of another kind. */
export type Changed = 'done' | 'missing' | 'unwanted' | 'moves';

/** Entity tags that a request names, of which a record has to have one, or none. */
export interface Conditions {
  /** The value of `If-Match`; null when there is none. */
  readonly match: string | null;
  /** The value of `If-None-Match`. */
  readonly noneMatch: string | null;
}

/** References are decimal digits, documents JSON texts. */
export interface Model {
  /** Executes a statement of TQL; gives the JSON text of the answer. */
  tql(statement: string): string;
  /** The entity tag of a record of a kind, and right behind it the record; undefined when there is none. */
  read(reference: string, kind: string): string | undefined;
  /** Changes a record of a kind, unless the conditions forbid it. What has been changed is of that kind. */
  change(change: Change, reference: string, kind: string, document: string | undefined, conditions: Conditions): Changed;
}

const CHANGES = { update: 0, patch: 1, delete: 2 } as const;

/** The records of a store that is open in this process. */
export class OwnModel implements Model {
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  tql(statement: string): string {
    return this.#store.native.tql(statement);
  }

  read(reference: string, kind: string): string | undefined {
    return this.#store.native.recordTagged(reference, kind);
  }

  change(change: Change, reference: string, kind: string, document: string | undefined, conditions: Conditions): Changed {
    const store = this.#store;
    const { native } = store;
    const work = (): Changed => (native.recordWrite(CHANGES[change], reference, kind, document) ? 'done' : 'missing');
    const isFree = conditions.match === null && conditions.noneMatch === null;
    if (isFree && change !== 'patch') return work();
    try {
      return store.transaction(() => {
        if (!isFree) {
          const found = native.recordTagged(reference, kind);
          if (found === undefined) return 'missing';
          if (!allows(conditions, found.slice(0, TAG_LENGTH))) return 'unwanted';
        }
        const outcome = work();
        // Another kind may not be open.
        if (change === 'patch' && outcome === 'done' && native.recordKind(reference) !== kind) throw new Moves();
        return outcome;
      });
    } catch (error) {
      if (error instanceof Moves) return 'moves';
      throw error;
    }
  }
}

/** Rolls back a patch that would change the kind. */
class Moves extends Error {}

/** Whether what has this tag is to be read or changed. */
export function allows({ match, noneMatch }: Conditions, tag: string): boolean {
  if (match !== null && !names(match, tag, false)) return false;
  return noneMatch === null || !names(noneMatch, tag, true);
}

/** Whether a list of entity tags has this one, which is strong; with `weakly`, a weak one of the same text counts too (RFC 9110, section 8.8.3.2). */
export function names(list: string, tag: string, weakly: boolean): boolean {
  for (const item of list.split(',')) {
    const named = item.trim();
    if (named === '*' || named === tag || (weakly && named === `W/${tag}`)) return true;
  }
  return false;
}
