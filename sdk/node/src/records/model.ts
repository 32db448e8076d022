/** The source of records for the controllers of {@link rest}. */
import { KIND_TAGGED, Reply, TAG_LENGTH } from '../reply.js';
import type { Store } from '../store/store.js';
import { KIND_JSON } from '../wire.js';

const NO_HEADERS: readonly string[] = [];

/** The operations on an existing record. */
export type Change = 'update' | 'patch' | 'delete';

/** The outcome: done; no such record; the conditions on the entity tag do not hold; the record would change its kind. */
export type ChangeResult = 'done' | 'missing' | 'precondition_failed' | 'kind_changed';

/** The entity tag conditions of a request. */
export interface Conditions {
  /** The value of `If-Match`; null if absent. */
  readonly match: string | null;
  /** The value of `If-None-Match`; null if absent. */
  readonly noneMatch: string | null;
}

/** Access to records. References are decimal digits, documents JSON texts. */
export interface Model {
  /** Executes a TQL statement; returns the JSON text of the answer. */
  tql(statement: string): string;
  /** The entity tag of a record of the kind, directly followed by the record; undefined if there is none. */
  read(reference: string, kind: string): string | undefined;
  /** The response to a GET of one record, made by the host; null if it cannot make it. */
  answer?(reference: string, kind: string, isWabur: boolean): Reply | null | undefined;
  /** Changes a record of the kind if the conditions hold. The changed record must stay of that kind. */
  change(change: Change, reference: string, kind: string, document: string | undefined, conditions: Conditions): ChangeResult;
}

const CHANGES = { update: 0, patch: 1, delete: 2 } as const;

/** The records of a store opened in this process. */
export class LocalModel implements Model {
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

  answer(reference: string, kind: string, isWabur: boolean): Reply | null | undefined {
    const { native } = this.#store;
    if (native.recordAnswer === undefined) return null;
    const body = native.recordAnswer(reference, kind, isWabur ? 1 : 0);
    return typeof body === 'string' ? new Reply(200, isWabur ? KIND_JSON : KIND_TAGGED, NO_HEADERS, body) : body;
  }

  change(change: Change, reference: string, kind: string, document: string | undefined, conditions: Conditions): ChangeResult {
    const store = this.#store;
    const { native } = store;
    const work = (): ChangeResult => (native.recordWrite(CHANGES[change], reference, kind, document) ? 'done' : 'missing');
    const isFree = conditions.match === null && conditions.noneMatch === null;
    if (isFree && change !== 'patch') return work();
    try {
      return store.transaction(() => {
        if (!isFree) {
          const found = native.recordTagged(reference, kind);
          if (found === undefined) return 'missing';
          if (!allows(conditions, found.slice(0, TAG_LENGTH))) return 'precondition_failed';
        }
        const outcome = work();
        // Methods of the other kind may not be open, so a patch must not move the record there.
        if (change === 'patch' && outcome === 'done' && native.recordKind(reference) !== kind) throw new KindChangeError();
        return outcome;
      });
    } catch (error) {
      if (error instanceof KindChangeError) return 'kind_changed';
      throw error;
    }
  }
}

/** Rolls back a patch that would change the kind. */
class KindChangeError extends Error {}

/** Whether the conditions allow reading or changing a record with this tag. */
export function allows({ match, noneMatch }: Conditions, tag: string): boolean {
  if (match !== null && !listsTag(match, tag, false)) return false;
  return noneMatch === null || !listsTag(noneMatch, tag, true);
}

/**
 * Whether a list of entity tags contains this strong tag; with `weakly`, the weak form of the same tag matches too (RFC 9110, section
 * 8.8.3.2).
 */
export function listsTag(list: string, tag: string, weakly: boolean): boolean {
  for (const item of list.split(',')) {
    const candidate = item.trim();
    if (candidate === '*' || candidate === tag || (weakly && candidate === `W/${tag}`)) return true;
  }
  return false;
}
