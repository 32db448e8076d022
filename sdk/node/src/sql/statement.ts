/** Statements in the form of operations. */
import type { WireStatement } from './operation.js';
import type { Statement } from './queries.js';
import { textOf } from './values.js';

export function toWireStatement(statement: Statement): WireStatement {
  return typeof statement === 'string' ? wireStatement(statement) : wireStatement(statement[0], statement[1]);
}

export function wireStatement(text: string, parameters: readonly unknown[] = []): WireStatement {
  if (typeof text !== 'string') throw new TypeError(`a statement is text, not a ${typeof text}`);
  return [text, parameters.map(textOf)];
}
