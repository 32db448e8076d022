// What `forebay check --json` says, as ranges of an editor. No part of VS Code, so that tests run it with the program alone.
'use strict';

const { readFileSync } = require('node:fs');

/** The lines of a file; none if it cannot be read. */
const linesOf = (file) => {
  try {
    return readFileSync(file, 'utf8').split(/\r?\n/);
  } catch {
    return [];
  }
};

/**
 * Problems by file: each with `line`, `start` and `end` (from 0, in UTF-16 units), `severity`, `message`, and perhaps `node` and `suggestion`. One
 * without a file is about the first line of the configuration. Throws if the text is not the output of `forebay check --json`.
 */
const problemsByFile = (output, configuration) => {
  const byFile = new Map();
  for (const { file = configuration, line = 1, column, end_column: endColumn, severity, key, message, node, suggestion } of JSON.parse(output).problems) {
    if (!byFile.has(file)) byFile.set(file, { lines: linesOf(file), problems: [] });
    const { lines, problems } = byFile.get(file);
    const letters = [...(lines[line - 1] ?? '')];
    const unitsBefore = (letter) => letters.slice(0, letter).join('').length;
    const start = unitsBefore((column ?? 1) - 1);
    // Without an end it is a word, or else one letter; without a column all of the line.
    const word = /^(?:[\p{L}\p{N}_]+|.)/u.exec(letters.join('').slice(start))?.[0].length ?? 0;
    const end = endColumn !== undefined ? unitsBefore(endColumn - 1) : column !== undefined ? start + word : unitsBefore(letters.length);
    problems.push({ line: line - 1, start, end, severity, message: key ? `${key}: ${message}` : message, node, suggestion });
  }
  return new Map([...byFile].map(([file, { problems }]) => [file, problems]));
};

/** The problem to show at each node of a workflow: an error rather than a warning. */
const problemsByNode = (problems) => {
  const weight = (problem) => ['note', 'warning', 'error'].indexOf(problem.severity);
  const byNode = {};
  for (const problem of problems) {
    if (problem.node !== undefined && !(weight(byNode[problem.node] ?? { severity: '' }) >= weight(problem))) byNode[problem.node] = problem;
  }
  return byNode;
};

/** Where the `"id"` of a node begins in the text of a workflow; -1 if it is not there. */
const offsetOfNode = (text, id) => {
  const quoted = JSON.stringify(id).replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
  const found = new RegExp(`("id"\\s*:\\s*)${quoted}`).exec(text);
  return found ? found.index + found[1].length : -1;
};

module.exports = { offsetOfNode, problemsByFile, problemsByNode };
