// The extension with the real program. VS Code itself is not there: `vscode` is a stand-in, as small as what the extension uses of it, and the types
// of VS Code say whether it uses that as it may.

import assert from 'node:assert/strict';
import { EventEmitter, once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import Module, { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, test } from 'node:test';
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';

const FOLDER = new URL('../vscode/', import.meta.url);
const BINARY = process.env.FOREBAY_BINARY ?? new URL('../../target/debug/forebay', import.meta.url).pathname;
const home = mkdtempSync(join(tmpdir(), 'forebay-editor-'));
after(() => rmSync(home, { recursive: true, force: true }));
const put = (file, content) => {
  mkdirSync(dirname(join(home, file)), { recursive: true });
  writeFileSync(join(home, file), content);
  return join(home, file);
};
const { offsetOfNode, problemsByFile, problemsByNode } = createRequire(import.meta.url)('../vscode/problems.js');
const check = async (configuration) => {
  const { stdout } = await promisify(execFile)(BINARY, ['check', '--json', '-c', configuration]).catch((error) => error);
  return problemsByFile(stdout, configuration);
};
/** The texts that problems of a file mark, each with its severity and suggestion. */
const marked = (byFile, file) => {
  const lines = readFileSync(file, 'utf8').split('\n');
  return byFile.get(file).map(({ line, start, end, severity, suggestion }) => [lines[line].slice(start, end), severity, suggestion]);
};

const GRAPH = { nodes: [{ '@type': 'BOOT', id: '0' }, { '@type': 'PROCESS', id: 'a"b', ruleId: 'none' }, { '@type': 'RUN', id: '2', ruleId: 'right' }], edges: [{ from: '0', to: 'a"b' }, { from: 'a"b', to: '2' }] };

/** Waits for a condition; the runner ends a test for which it never holds. */
const until = async (condition) => {
  while (!condition()) await new Promise(setImmediate);
};

test('what the program finds is marked where it stands, in files of each kind', async () => {
  const configuration = put('marked/forebay.toml', '[pool.api]\nhandler = "api.mjs"\nqueue_mx = 1\n\n[[rout]]\npath = "/"\n');
  const names = await check(configuration);
  assert.deepEqual(marked(names, configuration), [['queue_mx', 'error', 'queue_max'], ['rout', 'error', 'route']]);
  assert.match(names.get(configuration).find(({ suggestion }) => suggestion === 'queue_max').message, /^pool\.api\.queue_mx: no such key \(did you mean `queue_max`\?\)/);
  put('marked/forebay.toml', '[server\n');
  assert.deepEqual(marked(await check(configuration), configuration), [['[server', 'error', undefined]]);

  put('marked/forebay.toml', '[pool.api]\nhandler = "api.mjs"\n[workflow]\npath = "flows"\n');
  const handler = put('marked/api.mjs', 'export default () => { return 1 +; };\n');
  const graph = put('marked/flows/graph.json', JSON.stringify(GRAPH).replace('{', '{"name":"𝒳",'));
  put('marked/flows/rules/right.js', 'function process() {}\n');
  const byFile = await check(configuration);
  assert.deepEqual(marked(byFile, graph), [[JSON.stringify('a"b'), 'error', undefined]]);
  assert.deepEqual(marked(byFile, handler), [[';', 'error', undefined]]);
  const [{ node }] = byFile.get(graph);
  assert.equal(node, 'a"b');
  const text = readFileSync(graph, 'utf8');
  assert.ok(text.slice(offsetOfNode(text, node)).startsWith('"a\\"b"'));
  assert.equal(offsetOfNode(text, 'b'), -1);
});

test('a node shows an error rather than a warning', () => {
  const problems = ['note', 'error', 'warning'].map((severity) => ({ severity, node: '1' }));
  assert.deepEqual(problemsByNode([...problems, { severity: 'error' }]), { 1: problems[1] });
});

test('every snippet is a configuration', async () => {
  const snippets = JSON.parse(readFileSync(new URL('snippets.json', FOLDER)));
  for (const file of ['handlers/api.mjs', 'hello.mjs']) put(`snippets/${file}`, 'export default () => 1;\n');
  mkdirSync(join(home, 'snippets/public'));
  put('snippets/workflows/w.json', JSON.stringify({ nodes: [GRAPH.nodes[0], GRAPH.nodes[2]], edges: [{ from: '0', to: '2' }] }));
  put('snippets/workflows/rules/right.js', 'function process() {}\n');
  process.env.DATABASE_URL = 'postgres://nobody@127.0.0.1:9/none';
  for (const [name, { body }] of Object.entries(snippets)) {
    const configuration = put('snippets/forebay.toml', body.join('\n').replace(/(?<!\\)\$\{\d:([^}]+)\}/g, '$1').replaceAll('\\$', '$'));
    const problems = [...(await check(configuration)).values()].flat().filter(({ severity }) => severity !== 'note');
    assert.deepEqual(problems, [], name);
  }
});

/** What the extension uses of VS Code. `seen` is what it has done, `events` are what happens to it. */
const host = (path) => {
  const events = new EventEmitter();
  const seen = { diagnostics: new Map(), commands: {}, errors: [], contexts: {}, panels: [], terminals: [], opened: [], edits: [] };
  const on = (name) => (listener) => (events.on(name, listener), { dispose: () => events.off(name, listener) });
  const uri = (fsPath) => ({ fsPath });
  const document = (file) => ({ uri: uri(file), languageId: file.endsWith('.json') ? 'json' : 'toml', getText: () => readFileSync(file, 'utf8'), positionAt: (offset) => offset });
  class Edit {
    replace = (at, range, text) => seen.edits.push({ file: at.fsPath, range, text });
    insert = (at, position, text) => seen.edits.push({ file: at.fsPath, position, text });
  }
  const panel = () => {
    const made = { title: '', reveal: () => {}, dispose: () => events.emit('panel gone'), onDidDispose: on('panel gone'), webview: { onDidReceiveMessage: on('message'), postMessage: (message) => events.emit('drawing', message), html: '' } };
    seen.panels.push(made);
    return made;
  };
  const vscode = {
    CodeAction: class { constructor(title, kind) { Object.assign(this, { title, kind }); } },
    CodeActionKind: { QuickFix: 'quickfix' },
    Diagnostic: class { constructor(range, message, severity) { Object.assign(this, { range, message, severity }); } },
    DiagnosticSeverity: { Error: 0, Warning: 1, Information: 2 },
    Position: class { constructor(line, character) { Object.assign(this, { line, character }); } },
    Range: class { constructor(...ends) { this.ends = ends; } },
    Selection: class { constructor(...ends) { this.ends = ends; } },
    TextEditorRevealType: {},
    Uri: { file: uri, parse: (text) => text },
    ViewColumn: { One: 1, Beside: -2 },
    WorkspaceEdit: Edit,
    commands: { registerCommand: (name, run) => (seen.commands[name] = run), executeCommand: (_, name, value) => (seen.contexts[name] = value) },
    env: { openExternal: (address) => seen.opened.push(address) },
    languages: {
      createDiagnosticCollection: () => ({ set: (at, found) => { seen.diagnostics.set(at.fsPath, found); events.emit('diagnostics'); }, dispose: () => seen.diagnostics.clear() }),
      registerCodeActionsProvider: (_, provider) => (seen.quickFixes = provider),
    },
    window: {
      activeTextEditor: undefined,
      createTerminal: (options) => (seen.terminals.push(options), { show: () => {} }),
      createWebviewPanel: panel,
      onDidChangeActiveTextEditor: on('active'),
      showErrorMessage: (message) => { seen.errors.push(message); events.emit('complaint'); },
      showTextDocument: async (shown) => (seen.shown = { document: shown, revealRange: () => {} }),
    },
    workspace: {
      isTrusted: true,
      workspaceFolders: [{ uri: uri(home) }],
      textDocuments: [],
      getConfiguration: () => ({ get: path }),
      findFiles: async () => [],
      openTextDocument: async (file) => document(file),
      applyEdit: async () => true,
      fs: { writeFile: async (at, bytes) => writeFileSync(at.fsPath, bytes) },
      onDidSaveTextDocument: on('save'), onDidOpenTextDocument: on('open'), onDidChangeTextDocument: on('change'),
    },
  };
  return { vscode, seen, events, document };
};
/** Loads the extension anew, with a host in place of VS Code. */
const activate = (path = () => BINARY) => {
  const made = host(path);
  const load = Module._load;
  Module._load = (name, ...rest) => (name === 'vscode' ? made.vscode : load(name, ...rest));
  const require = createRequire(FOLDER);
  try {
    delete require.cache[require.resolve('./extension.js')];
    require('./extension.js').activate({ subscriptions: [] });
  } finally {
    Module._load = load;
  }
  return made;
};

test('saving checks the configuration above the file, and what was repaired is gone', async () => {
  const { vscode, seen, events, document } = activate();
  const configuration = put('saved/forebay.toml', '[workflow]\npathh = "flows"\npath = "flows"\n');
  const graph = put('saved/flows/graph.json', JSON.stringify(GRAPH));
  put('saved/flows/rules/right.js', 'function process() {}\n');
  events.emit('save', { uri: { fsPath: put('saved/notes.txt', '') } });
  events.emit('save', { uri: { fsPath: graph } });
  await once(events, 'diagnostics');
  const [wrong] = seen.diagnostics.get(configuration);
  assert.deepEqual([wrong.range.ends, wrong.severity, wrong.code], [[1, 0, 1, 5], vscode.DiagnosticSeverity.Error, 'path']);
  const [fix] = seen.quickFixes.provideCodeActions(document(configuration), wrong.range, { diagnostics: [wrong] });
  assert.equal(fix.title, 'Replace by path');
  assert.deepEqual(seen.edits, [{ file: configuration, range: wrong.range, text: 'path' }]);

  put('saved/forebay.toml', '[workflow]\npath = "flows"\n');
  vscode.window.activeTextEditor = { document: document(graph) };
  seen.commands['forebay.showGraph']();
  events.emit('message', { ready: true });
  await once(events, 'drawing');
  events.emit('save', { uri: { fsPath: configuration } });
  const [{ drawing }] = await once(events, 'drawing');
  assert.deepEqual(seen.diagnostics.get(configuration), []);
  assert.match(drawing, /class="node error" data-id="a&#34;b"/);
  assert.equal(seen.panels[0].title, 'Graph of graph.json');
  events.emit('message', { node: '2' });
  await until(() => seen.shown?.selection);
  assert.ok(readFileSync(graph, 'utf8').slice(seen.shown.selection.ends[0]).startsWith('"2"'));
});

test('the graph follows the active editor, and other files have none', async () => {
  const { vscode, seen, events, document } = activate();
  const open = (file, content) => {
    vscode.window.activeTextEditor = { document: document(put(file, content)) };
    events.emit('active', vscode.window.activeTextEditor);
  };
  open('active/package.json', '{"name":"x"}');
  await until(() => seen.contexts['forebay.isWorkflow'] === false);
  open('active/graph.json', JSON.stringify(GRAPH));
  await until(() => seen.contexts['forebay.isWorkflow'] === true);
  open('active/broken.json', '{"nodes":');
  await until(() => seen.contexts['forebay.isWorkflow'] === false);
});

test('commands serve, open the console and add the schema', async () => {
  const { vscode, seen, document } = activate();
  const configuration = put('commands/forebay.toml', '[admin]\nhosts = ["a.example"]\nlisten = "127.0.0.1:8099"\n');
  vscode.window.activeTextEditor = { document: document(configuration) };
  await seen.commands['forebay.serve']();
  assert.deepEqual(seen.terminals, [{ name: 'Forebay', cwd: dirname(configuration), shellPath: BINARY, shellArgs: ['serve', '--watch', '-c', configuration] }]);
  await seen.commands['forebay.openConsole']();
  assert.deepEqual(seen.opened, ['http://127.0.0.1:8099/']);
  await seen.commands['forebay.addSchema']();
  assert.ok(JSON.parse(readFileSync(join(dirname(configuration), 'forebay.schema.json'))).properties.route);
  assert.deepEqual(seen.edits.map(({ text }) => text), ['#:schema ./forebay.schema.json\n']);
  put('commands/forebay.toml', '[admin]\nlisten = "off"\n');
  await seen.commands['forebay.openConsole']();
  vscode.window.activeTextEditor = undefined;
  await seen.commands['forebay.serve']();
  assert.deepEqual(seen.errors, ['Forebay: the admin listener is off: `listen` under [admin] is its address.', 'Forebay: this workspace has no forebay.toml; `forebay new DIR` writes one.']);
});

test('a program that is not there is said once, with what to do', async () => {
  let path = '/nowhere/forebay';
  const { seen, events } = activate(() => path);
  const saved = { uri: { fsPath: put('absent/forebay.toml', '[rout]\n') } };
  events.emit('save', saved);
  await once(events, 'complaint');
  events.emit('save', saved);
  path = BINARY;
  events.emit('save', saved);
  await once(events, 'diagnostics');
  assert.deepEqual(seen.errors, ['Forebay: /nowhere/forebay is not there. Install Forebay, or set forebay.path to the program.']);
});

test('nothing of a workspace that is not trusted is run', async () => {
  let asked = 0;
  const { vscode, seen, events } = activate(() => ((asked += 1), BINARY));
  const saved = { uri: { fsPath: put('untrusted/forebay.toml', '[rout]\n') } };
  vscode.workspace.isTrusted = false;
  events.emit('save', saved);
  for (const command of ['serve', 'openConsole', 'addSchema']) await seen.commands[`forebay.${command}`]();
  assert.deepEqual(seen.errors.map((message) => /not trusted/.test(message)), [true, true, true]);
  assert.deepEqual([asked, seen.terminals, seen.opened], [0, [], []]);
  vscode.workspace.isTrusted = true;
  events.emit('save', saved);
  await once(events, 'diagnostics');
});

test('VS Code is used as the types of its oldest supported version allow', async () => {
  const { devDependencies, engines } = JSON.parse(readFileSync(new URL('package.json', FOLDER)));
  assert.equal(`^${devDependencies['@types/vscode']}`, engines.vscode);
  const compiler = new URL('../../sdk/node/node_modules/.bin/tsc', import.meta.url).pathname;
  const problems = await promisify(execFile)(compiler, ['-p', 'jsconfig.json'], { cwd: FOLDER }).then(() => '', ({ stdout, message }) => stdout || message);
  assert.equal(problems, '');
});

test('the manifest names only files and commands that are there', () => {
  const { contributes, main } = JSON.parse(readFileSync(new URL('package.json', FOLDER)));
  const paths = [main, ...contributes.grammars.map(({ path }) => path), ...contributes.snippets.map(({ path }) => path), ...contributes.languages.map(({ configuration }) => configuration)];
  for (const path of paths) assert.ok(existsSync(new URL(path, FOLDER)), path);
  assert.deepEqual(Object.keys(activate().seen.commands).sort(), contributes.commands.map(({ command }) => command).sort());
});
