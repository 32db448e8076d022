/** What is asked of databases, as `crates/pg/src/desk/operation.rs` reads it. */
import type { Text } from './values.js';

/** A statement with its parameters. */
export type WireStatement = readonly [text: string, parameters: readonly Text[]];

/** Statements, sent without waiting for each other. The outcome is an `Outcome` for each. */
export interface Run {
  readonly op: 'statements';
  readonly source: string;
  readonly transaction?: number;
  readonly statements: readonly WireStatement[];
}

/** The outcome is `{ transaction }`. */
export interface Begin {
  readonly op: 'begin';
  readonly source: string;
  readonly isolation?: string;
  readonly read_only?: boolean;
}

/** The outcome of `savepoint` is `{ savepoint }`, else `{}`. */
export interface InTransaction {
  readonly op: 'savepoint' | 'commit' | 'rollback';
  readonly source: string;
  readonly transaction: number;
}

/** The outcome is `{}`, and the savepoint is gone. */
export interface ToSavepoint {
  readonly op: 'release' | 'rollback_to';
  readonly source: string;
  readonly transaction: number;
  readonly savepoint: number;
}

/** The outcome is a `Part`. */
export interface OpenCursor {
  readonly op: 'cursor';
  readonly source: string;
  readonly transaction?: number;
  readonly statement: WireStatement;
  readonly batch: number;
}

/** The outcome is a `Part`. */
export interface Fetch {
  readonly op: 'fetch';
  readonly source: string;
  readonly cursor: number;
}

/** The outcome of `copy_in` is `{ copy }`, of `copy_out` `{ copy, binary }`. */
export interface Copy {
  readonly op: 'copy_in' | 'copy_out';
  readonly source: string;
  readonly transaction?: number;
  readonly text: string;
}

/** Text, or bytes as `hexOf` writes them. The outcome is `{}`, when there is room for more. */
export interface CopyPiece {
  readonly op: 'copy_send';
  readonly source: string;
  readonly copy: number;
  readonly text?: string;
  readonly bytes?: string;
}

/** The outcome of `copy_done` is `{ count }`, of `copy_read` `{ text }` or `{ bytes }`, and `{}` after the last. */
export interface OfCopy {
  readonly op: 'copy_done' | 'copy_read';
  readonly source: string;
  readonly copy: number;
}

/** The outcome is `{ listen }`, once nothing is missed any more. */
export interface Listen {
  readonly op: 'listen';
  readonly source: string;
  readonly channel: string;
}

/** The outcome is `{ heard }`: payloads, and null where something may have been missed; none when nothing was heard in time. */
export interface Hear {
  readonly op: 'hear';
  readonly source: string;
  readonly listen: number;
  readonly wait_ms: number;
}

/** The end of something that is open; the outcome is `{}`. */
export interface Close {
  readonly op: 'close';
  readonly source: string;
  readonly id: number;
}

export type Operation = Run | Begin | InTransaction | ToSavepoint | OpenCursor | Fetch | Copy | CopyPiece | OfCopy | Listen | Hear | Close;
