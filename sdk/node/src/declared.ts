/** What a handler says it does in one known way, so that a server which knows that way need not call it. */

/** Records that are answered by kind and reference as {@link rest} answers them. */
export interface DeclaredReads {
  /** What stands before the kind in the path. */
  readonly prefix: string;
  readonly kinds: readonly string[];
  /** Whether answers are as WABuR has them, without an entity tag. */
  readonly isWabur: boolean;
}

/** Requests whose method and path, in one piece, begin with `head` and end with a reference behind it. */
export interface DeclaredRead {
  readonly head: string;
  readonly kind: string;
  readonly isWabur: boolean;
}

/** The property under which a handler declares. */
export const READS = Symbol('reads');

/** What a handler declares; undefined: nothing. */
export function declaredOf(handler: object): DeclaredReads | undefined {
  return (handler as { [READS]?: DeclaredReads })[READS];
}

/** What heads a handler's declaration is for. Kinds that a path has to spell in another way are left out. */
export function readsOf({ prefix, kinds, isWabur }: DeclaredReads): DeclaredRead[] {
  const plain = kinds.filter((kind) => /^[\w.-]+$/.test(kind));
  return plain.map((kind) => ({ head: `GET${prefix}/${kind}/`, kind, isWabur }));
}
