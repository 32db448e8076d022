/** Declared reads: a handler declares which records it serves in the standard way, so that the server can answer without calling it. */

/** Records that {@link rest} serves by kind and reference in the standard way. */
export interface DeclaredReads {
  /** The path in front of the kind. */
  readonly prefix: string;
  readonly kinds: readonly string[];
  /** Whether responses have WABuR's format, without an entity tag. */
  readonly isWabur: boolean;
}

/** Requests for one record: method and path, concatenated, are `head` followed by a reference. */
export interface DeclaredRead {
  readonly head: string;
  readonly kind: string;
  readonly isWabur: boolean;
}

/** The property that holds a handler's declaration. */
export const READS = Symbol('reads');

/** The handler's declaration; undefined if it has none. */
export function declaredOf(handler: object): DeclaredReads | undefined {
  return (handler as { [READS]?: DeclaredReads })[READS];
}

/** One entry for each declared kind. Kinds that would have to be percent-encoded in a path are left out. */
export function readsOf({ prefix, kinds, isWabur }: DeclaredReads): DeclaredRead[] {
  const plain = kinds.filter((kind) => /^[\w.-]+$/.test(kind));
  return plain.map((kind) => ({ head: `GET${prefix}/${kind}/`, kind, isWabur }));
}
