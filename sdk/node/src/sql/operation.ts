/** What is asked of databases, as `crates/pg/src/desk/operation.rs` reads it. */
import type { Text } from './values.js';

/** A statement with its parameters. */
export type WireStatement = readonly [text: string, parameters: readonly Text[]];

/** Statements, sent without waiting for each other. The outcome is an {@link Outcome} for each. */
export interface Statements {
  readonly op: 'statements';
  readonly source: string;
  readonly statements: readonly WireStatement[];
}

export type Operation = Statements;
