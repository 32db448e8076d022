/** What {@link StoreError.code} may be. */
export type StoreErrorCode =
  /** A global's name or a subscript that cannot be, or a path that is too long. */
  | 'key'
  /** A value that JSON has no form for: `undefined`, a function, `NaN`, a `Map`, more than 200 levels, ... */
  | 'not_json'
  /** Text that is not JSON. */
  | 'json'
  /** A string with half a surrogate pair, which UTF-8 has no form for. */
  | 'not_text'
  /** A value longer than the store takes. */
  | 'value_too_long'
  /** An increment of what is no number. */
  | 'not_a_number'
  /** A sum of more digits than are kept exactly. */
  | 'number_too_long'
  /** A merge of a subtree with a part of itself. */
  | 'overlap'
  /** A write to a store opened for reading. */
  | 'read_only'
  /** A write inside a snapshot. */
  | 'in_snapshot'
  /** A transaction whose function returned a promise; it was rolled back. */
  | 'async_transaction'
  /** A transaction that cannot be committed, because one nested in it has failed. */
  | 'aborted'
  /** A transaction in which an operation failed half way; it was rolled back. */
  | 'broken'
  /**
   * Not begun, because what earlier requests of the same turn had left to be committed with their answers (`commit: 'answer'`) could not
   * be. It is lost, and they are answered with an error; of this, nothing has been done, and it may be done again in a later turn.
   */
  | 'not_settled'
  /** A commit or a rollback without a transaction. */
  | 'no_transaction'
  /** The end of a snapshot that did not begin. */
  | 'no_snapshot'
  /** Closing inside a transaction or a snapshot; children of mg-dbx whose lock another process holds. */
  | 'busy'
  /** The store has been closed. */
  | 'closed'
  /** This process was given no store; glsdb could not open one. */
  | 'no_store'
  /** What a script may not reach: its `allow` does not name it. */
  | 'not_allowed'
  /** There is no store in the folder. */
  | 'absent'
  /** This process has the store open with other options. */
  | 'open_already'
  /** Others have the store open, where it must be had alone. */
  | 'in_use'
  /** The system was started anew since the store was written: it must be opened for writing once, before it can be read. */
  | 'unrecovered'
  | 'log_without_tree'
  | 'foreign_log'
  /** The store is of another version of this program. */
  | 'format'
  /** No space is left: on the disk, or up to the store's limit. */
  | 'full'
  /** Too many snapshots over all processes. */
  | 'too_many_readers'
  /** A snapshot that lasted longer than the store allows. */
  | 'snapshot_too_old'
  /** An index that cannot be, is not there, or is there already; a question it cannot answer. */
  | 'index'
  /** A record with the same values as another one, in an index that wants them unique. */
  | 'not_unique'
  /** A transaction that this thread has begun already in another way. */
  | 'writes_already'
  /** More locks than one thread may hold. */
  | 'too_many_locks'
  /** The call's time was over before others were done with the store, so that nothing was written or locked; only in scripts. */
  | 'given_up'
  /** A log of changes that cannot be done again in this store. */
  | 'replay'
  /** The log of changes does not go back so far. */
  | 'changes_gone'
  /** Committed, but nobody knows whether it is on the disk. */
  | 'not_flushed'
  /** Nothing can be written any more, since a flush has failed: the store must be opened anew. */
  | 'flushes_fail'
  /** Bytes of the store are not what was written. */
  | 'damaged'
  /** A file that cannot be read or written. */
  | 'file'
  /** What has been asked for is not part of this store. */
  | 'unsupported'
  /** A statement that is no TQL; the message says where, and what is accepted there. */
  | 'tql_syntax'
  /** A statement that asks for what cannot be; the message says where. */
  | 'tql_meaning'
  /** A record that is no object. */
  | 'not_an_object'
  /** A kind that is no text, or that cannot be the name of a global. */
  | 'kind'
  /** An UPDATE by a reference that no record has. */
  | 'no_record'
  /** An INSERT whose WHERE finds something. */
  | 'already_exists'
  /** An UPDATE that finds more than its LIMIT. */
  | 'limit'
  /** A kind that this program may not reach. */
  | 'denied'
  /** A statement that would look at more records than `records.examined_max` before it has an answer. */
  | 'examined_max'
  /** A statement that would change more records than `records.rows_max`. */
  | 'rows_max'
  /** A record too long for all that a statement looks at in it. */
  | 'work_max'
  /** A page of a list that lies too far behind its beginning. */
  | 'page_max'
  /** Rows to be sorted that take more than `records.answer_bytes_max`. */
  | 'answer_bytes_max'
  /** A statement that takes longer than `records.change_time_max` to change what it concerns. */
  | 'change_time_max'
  /** A statement that was not done by its deadline. */
  | 'deadline'
  /** A cursor that belongs to another statement. */
  | 'cursor'
  /** A record that would lie where something lies that was not made as a record. */
  | 'reference_taken'
  /** No reference is left to be given. */
  | 'no_reference_left'
  /** Anything else that the engine says. */
  | 'engine'
  /** Bytes that no part of this package hands over. */
  | 'malformed';

/**
 * What operations of a store throw. Its `code` stays the same when texts change:
 *
 * ```js
 * try {
 *   store.set('Person', id, person);
 * } catch (error) {
 *   if (error instanceof StoreError && error.code === 'full') …
 * }
 * ```
 */
export class StoreError extends Error {
  override readonly name = 'StoreError';
  readonly code: StoreErrorCode;

  constructor(code: StoreErrorCode, message: string) {
    super(message);
    this.code = code;
  }
}
