/** A part of what has an order: children of a node by their subscripts, records of an index by their values. */
export interface Bounds<T> {
  /** The first: this one, or the nearest after it. */
  from?: T | undefined;
  /** Only those after this one. */
  after?: T | undefined;
  /** The last: this one, or the nearest before it. */
  to?: T | undefined;
  /** Only those before this one. */
  before?: T | undefined;
  /** From the last to the first. */
  reverse?: boolean | undefined;
  /** At most so many. */
  limit?: number | undefined;
}
