/** The codes of {@link StoreError}. */
export type StoreErrorCode =
  /** An invalid global name or subscript, or a path that is too long. */
  | 'key'
  /** A value that JSON cannot represent: `undefined`, a function, `NaN`, a `Map`, more than 200 levels, ... */
  | 'not_json'
  /** Text that is not valid JSON. */
  | 'json'
  /** A string with an unpaired surrogate, which UTF-8 cannot represent. */
  | 'not_text'
  /** A value that exceeds the store's limit. */
  | 'value_too_long'
  /** An increment of a value that is not a number. */
  | 'not_a_number'
  /** A sum with more digits than can be stored exactly. */
  | 'number_too_long'
  /** A merge of a subtree with one that contains it or is part of it. */
  | 'overlap'
  /** A write to a store opened for reading. */
  | 'read_only'
  /** A write inside a snapshot. */
  | 'in_snapshot'
  /** The function of a transaction returned a promise; the transaction was rolled back. */
  | 'async_transaction'
  /** A transaction that cannot be committed, because a transaction nested in it failed. */
  | 'aborted'
  /** An operation of the transaction failed midway; the transaction was rolled back. */
  | 'broken'
  /**
   * Not started, because the writes of earlier requests of the same turn (`commit: 'answer'`) could not be committed. Those writes are
   * lost, and their requests are answered with an error. Of this operation nothing was done; it may be retried in a later turn.
   */
  | 'not_settled'
  /** A commit or a rollback without a transaction. */
  | 'no_transaction'
  /** The end of a snapshot that was not begun. */
  | 'no_snapshot'
  /** Closing inside a transaction or snapshot; with mg-dbx, child nodes locked by another process. */
  | 'busy'
  /** The store has been closed. */
  | 'closed'
  /** This process has no store; with glsdb, no store could be opened. */
  | 'no_store'
  /** Not accessible to this script, because its `allow` does not name it. */
  | 'not_allowed'
  /** There is no store in the folder. */
  | 'absent'
  /** This process has the store open with other options. */
  | 'open_already'
  /** Others have the store open, but exclusive access is needed. */
  | 'in_use'
  /** The system was restarted since the store was last written: open it for writing once before reading. */
  | 'unrecovered'
  | 'log_without_tree'
  | 'foreign_log'
  /** The store was written by a version with another format. */
  | 'format'
  /** A store in a database: no server answers, or the connection broke. Nothing was changed. */
  | 'database_unreachable'
  /** A store in a database: a statement took too long, or another program was writing for too long. Nothing was changed. */
  | 'database_late'
  /** A store in a database that accepts no writes, as a standby does. */
  | 'database_read_only'
  /** A store in a database: no connection is free. Nothing was changed. */
  | 'database_full'
  /** The URL of a database is not valid. */
  | 'database_address'
  /** Any other error of a store's database. Nothing was changed. */
  | 'database'
  /** The database ended the transaction in favour of another one: it can be run again. */
  | 'conflict'
  /** A store in a database: the connection broke during a commit, and whether the commit stands could not be found out. */
  | 'commit_unknown'
  /** A store in a database: a commit came between two reads that belong together, again and again. */
  | 'moved'
  /** Only a store in a folder has this. */
  | 'in_database'
  /** A copy of a store that cannot be made, or differs from the original. */
  | 'copy'
  /** No space left: on the disk, or within the store's limit. */
  | 'full'
  /** Too many snapshots, counted over all processes. */
  | 'too_many_readers'
  /** A snapshot that was open for longer than the store allows. */
  | 'snapshot_too_old'
  /** An index that is invalid, missing, or already there; or a query that it cannot answer. */
  | 'index'
  /** A record with the same values as another one in a unique index. */
  | 'not_unique'
  /** A transaction that this thread has already begun in another way. */
  | 'writes_already'
  /** More locks than one thread may hold. */
  | 'too_many_locks'
  /** The call's deadline passed while it waited for other users of the store; nothing was written or locked. Scripts only. */
  | 'given_up'
  /** A change log that cannot be replayed in this store. */
  | 'replay'
  /** The change log does not reach back that far. */
  | 'changes_gone'
  /** Committed, but possibly not on the disk. */
  | 'not_flushed'
  /** No more writes are possible because a flush failed: close the store and open it again. */
  | 'flushes_fail'
  /** A commit failed, and its record cannot be removed from the change log: it may yet be made when the store is next opened. No more writes are possible until it is removed. */
  | 'in_doubt'
  /** The store's data is corrupted. */
  | 'damaged'
  /** A file could not be read or written. */
  | 'file'
  /** A feature that this store does not support. */
  | 'unsupported'
  /** Not a valid TQL statement; the message says where, and what is accepted there. */
  | 'tql_syntax'
  /** A TQL statement that makes no sense; the message says where. */
  | 'tql_meaning'
  /** A record that is not an object. */
  | 'not_an_object'
  /** A kind that is not a string, or not a valid name of a global. */
  | 'kind'
  /** UPDATE with a reference that no record has. */
  | 'no_record'
  /** INSERT whose WHERE matches a record. */
  | 'already_exists'
  /** UPDATE that matches more records than its LIMIT. */
  | 'limit'
  /** A kind that this program may not access. */
  | 'denied'
  /** A statement that would examine more than `records.examined_max` records. */
  | 'examined_max'
  /** A statement that would change more than `records.rows_max` records. */
  | 'rows_max'
  /** A record too large for everything that a statement examines in it. */
  | 'work_max'
  /** A page of a list too far from its start. */
  | 'page_max'
  /** Rows to be sorted that exceed `records.answer_bytes_max`. */
  | 'answer_bytes_max'
  /** A statement that takes longer than `records.change_time_max` to change its records. */
  | 'change_time_max'
  /** A statement that did not finish before its deadline. */
  | 'deadline'
  /** A cursor of another statement. */
  | 'cursor'
  /** The record's place is taken by something that was not created as a record. */
  | 'reference_taken'
  /** No references are left. */
  | 'no_reference_left'
  /** Any other error of the storage engine. */
  | 'engine'
  /** Malformed arguments, which this package never passes. */
  | 'malformed';

/**
 * An error of a store. Its `code` is stable, while message texts may change:
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
