/**
 * The store: a tree of JSON values in a folder, read and written in this process.
 *
 * @module
 */
export type { Bounds } from './bounds.js';
export { StoreError, type StoreErrorCode } from './error.js';
export { StoreNode, type JsonValue, type Range } from './node.js';
export type { IndexDefinition, Query, Scalar } from './query.js';
export type { Subscript } from './path.js';
export { open, store, type OpenOptions } from './open-stores.js';
export { Store, type Durability, type StoreStats, type TransactionOptions } from './store.js';
