// The grammar of TQL, with the engine that VS Code has, on every statement of the reference.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { test } from 'node:test';

const FOLDER = new URL('../vscode/', import.meta.url);
const require = createRequire(new URL('package.json', FOLDER));
const { INITIAL, Registry, parseRawGrammar } = require('vscode-textmate');
const oniguruma = require('vscode-oniguruma');

const text = (file) => readFileSync(new URL(file, FOLDER), 'utf8');
const { contributes } = JSON.parse(text('package.json'));
const files = new Map(contributes.grammars.map(({ scopeName, path }) => [scopeName, path]));
/** The hosts of the embedded grammar; those of VS Code are not there, so all of their text is plain. */
const hosts = contributes.grammars.flatMap(({ injectTo = [] }) => injectTo);
const embedding = [...files.keys()].find((name) => name.endsWith('.embedded'));

await oniguruma.loadWASM(readFileSync(require.resolve('vscode-oniguruma/release/onig.wasm')).buffer);
const registry = new Registry({
  onigLib: Promise.resolve({ createOnigScanner: (sources) => new oniguruma.OnigScanner(sources), createOnigString: (string) => new oniguruma.OnigString(string) }),
  loadGrammar: async (scope) => parseRawGrammar(files.has(scope) ? text(files.get(scope)) : JSON.stringify({ scopeName: scope, patterns: [] }), 'grammar.json'),
  getInjections: (scope) => (hosts.includes(scope) ? [embedding] : undefined),
});

/** Each token but spaces, with the kind that themes colour: the last scope without its language. */
const tokens = async (source, scope = 'source.tql') => {
  const grammar = await registry.loadGrammar(scope);
  let state = INITIAL;
  return source.split('\n').flatMap((line) => {
    const { tokens, ruleStack } = grammar.tokenizeLine(line, state);
    state = ruleStack;
    return tokens.map(({ startIndex, endIndex, scopes }) => [line.slice(startIndex, endIndex), scopes.at(-1)]).filter(([token]) => token.trim() !== '');
  });
};
const kindOf = async (source, wanted, scope) => (await tokens(source, scope)).find(([token]) => token === wanted)?.[1];

const REFERENCE = readFileSync(new URL('../../docs/reference/tql.md', FOLDER), 'utf8');
const STATEMENTS = [...REFERENCE.matchAll(/^POST \/tql\n([^]*?)\n---$/gm)].map(([, statement]) => statement);

test('every clause and function of the reference has a colour, and no part of a statement is left without one', async () => {
  assert.ok(STATEMENTS.length > 30);
  for (const statement of STATEMENTS) {
    for (const [token, scope] of await tokens(statement)) assert.notEqual(scope, 'source.tql', `${JSON.stringify(token)} in ${statement}`);
  }
  const clauses = /^clause {5}= ([^]+?)\nexpression/m.exec(REFERENCE)[1];
  for (const [, clause] of clauses.matchAll(/"([A-Z]{2,})"/g)) assert.equal(await kindOf(`${clause} 1`, clause), 'keyword.control.tql');
  const functions = /^\| function \|[^]+?\n\n/m.exec(REFERENCE)[0].replace(/^(?:\|[^|]*\|).*$/gm, (row) => row.split('|')[1]);
  for (const [name] of functions.matchAll(/\b[A-Z]{2,}\b/g)) assert.equal(await kindOf(`WHERE ${name}(a 1)`, name), 'support.function.tql');
});

test('names, values and keywords are told apart', async () => {
  const statement = `select {"id": $ref, "at": at.limit, "x": [tags.*, 'it''s']} where AND(gte(born 1954-05-01T00:00:00Z) eq(n -1.5e3) EQ(u 123e4567-e89b-12d3-a456-426614174000) has(order)) sort -age, limit 0x1F cursor '\\n'`;
  const expected = {
    select: 'keyword.control.tql', '"id"': 'support.type.property-name.tql', '$ref': 'variable.language.tql', at: 'variable.other.tql', limit: 'variable.other.tql',
    '*': 'keyword.operator.tql', where: 'keyword.control.tql', AND: 'support.function.tql', gte: 'support.function.tql', '1954-05-01T00:00:00Z': 'constant.other.timestamp.tql',
    '-1.5e3': 'constant.numeric.tql', '123e4567-e89b-12d3-a456-426614174000': 'constant.other.uuid.tql', order: 'variable.other.tql', '-': 'keyword.operator.tql',
    age: 'variable.other.tql', '0x1F': 'constant.numeric.tql', '\\n': 'constant.character.escape.tql',
  };
  for (const [token, scope] of Object.entries(expected)) assert.equal(await kindOf(statement, token), scope, token);
});

test('TQL is coloured in fences of Markdown and in calls of tql()', async () => {
  const fence = 'text\n```tql\nWHERE EQ(a 1)\n```\nWHERE\n';
  const found = await tokens(fence, 'text.html.markdown');
  assert.deepEqual(found.filter(([token]) => token === 'WHERE').map(([, scope]) => scope), ['keyword.control.tql', 'text.html.markdown']);
  for (const scope of ['source.js', 'source.ts']) {
    const call = "records.tql(`SELECT name\n  WHERE EQ(kind 'Person')`); WHERE";
    assert.deepEqual((await tokens(call, scope)).filter(([token]) => /^(SELECT|WHERE|EQ)$/.test(token)).map(([, found]) => found), ['keyword.control.tql', 'keyword.control.tql', 'support.function.tql'], scope);
  }
});
