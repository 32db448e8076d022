/** Operations on databases, as parsed by `crates/pg/src/session/operation.rs`. */
import type { Text } from './values.js';

/** A statement with its parameters. */
export type WireStatement = readonly [text: string, parameters: readonly Text[]];

/** Statements, sent without waiting for each other. The result is an `Outcome` for each. */
export interface Run {
  readonly op: 'statements';
  readonly source: string;
  readonly transaction?: number;
  readonly statements: readonly WireStatement[];
}

/** The result is `{ transaction }`. */
export interface Begin {
  readonly op: 'begin';
  readonly source: string;
  readonly isolation?: string;
  readonly read_only?: boolean;
}

/** The result of `savepoint` is `{ savepoint }`, otherwise `{}`. */
export interface InTransaction {
  readonly op: 'savepoint' | 'commit' | 'rollback';
  readonly source: string;
  readonly transaction: number;
}

/** The result is `{}`; the savepoint no longer exists. */
export interface ToSavepoint {
  readonly op: 'release' | 'rollback_to';
  readonly source: string;
  readonly transaction: number;
  readonly savepoint: number;
}

/** The result is a `Part`. */
export interface OpenCursor {
  readonly op: 'cursor';
  readonly source: string;
  readonly transaction?: number;
  readonly statement: WireStatement;
  readonly batch: number;
}

/** The result is a `Part`. */
export interface Fetch {
  readonly op: 'fetch';
  readonly source: string;
  readonly cursor: number;
}

/** The result of `copy_in` is `{ copy }`, of `copy_out` `{ copy, binary }`. */
export interface Copy {
  readonly op: 'copy_in' | 'copy_out';
  readonly source: string;
  readonly transaction?: number;
  readonly text: string;
}

/** Text, or bytes encoded by `hexOf`. The result is `{}`, once there is room for more. */
export interface CopyPiece {
  readonly op: 'copy_send';
  readonly source: string;
  readonly copy: number;
  readonly text?: string;
  readonly bytes?: string;
}

/** The result of `copy_done` is `{ count }`, of `copy_read` `{ text }` or `{ bytes }`, and `{}` after the last. */
export interface CopyStep {
  readonly op: 'copy_done' | 'copy_read';
  readonly source: string;
  readonly copy: number;
}

/** The result is `{ listen }`, once the listener is active. */
export interface Listen {
  readonly op: 'listen';
  readonly source: string;
  readonly channel: string;
}

/** The result is `{ heard }`: payloads, and null where notifications may have been lost; empty if none arrived in time. */
export interface Hear {
  readonly op: 'hear';
  readonly source: string;
  readonly listen: number;
  readonly wait_ms: number;
}

/** Closes something that is open; the result is `{}`. */
export interface Close {
  readonly op: 'close';
  readonly source: string;
  readonly id: number;
}

export type Operation = Run | Begin | InTransaction | ToSavepoint | OpenCursor | Fetch | Copy | CopyPiece | CopyStep | Listen | Hear | Close;
