/** A range in an order: children of a node by subscript, records of an index by value. */
export interface Bounds<T> {
  /** Lower bound, inclusive. */
  from?: T | undefined;
  /** Lower bound, exclusive. */
  after?: T | undefined;
  /** Upper bound, inclusive. */
  to?: T | undefined;
  /** Upper bound, exclusive. */
  before?: T | undefined;
  /** Descending order. */
  reverse?: boolean | undefined;
  /** Maximum number of results. */
  limit?: number | undefined;
}
