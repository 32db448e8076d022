// The extension: runs `forebay check` when a file is saved, and shows what it says; draws the graph of the workflow in the editor; commands.
'use strict';

const { execFile } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { existsSync } = require('node:fs');
const { basename, dirname, join } = require('node:path');
const vscode = require('vscode');
const { page } = require('./panel.js');
const { offsetOfNode, problemsByFile, problemsByNode } = require('./problems.js');

const CONFIGURATION = 'forebay.toml';
/** Longest time of a check: it asks databases, and loads scripts within their own limits. */
const CHECK_TIME_MAX = 60_000;
const OUTPUT_BYTES_MAX = 16 * 2 ** 20;
/** Longest JSON that is looked at for a graph, in characters: the largest workflows are shorter. */
const GRAPH_TEXT_MAX = 8 * 2 ** 20;
/** Files whose change can change what a check says. */
const CHECKED = /\.(toml|json|[cm]?[jt]s|py)$/;

const program = () => vscode.workspace.getConfiguration('forebay').get('path');

/** The configuration that a file belongs to: the nearest one, up to the folder of the workspace. */
const configurationOf = (file) => {
  for (let folder = dirname(file); ; folder = dirname(folder)) {
    if (existsSync(join(folder, CONFIGURATION))) return join(folder, CONFIGURATION);
    const isRoot = vscode.workspace.workspaceFolders?.some(({ uri }) => uri.fsPath === folder);
    if (isRoot || folder === dirname(folder)) return undefined;
  }
};

/** Runs the program in the folder of a configuration; resolves to what it printed, whatever its exit code. */
const run = (args, configuration) =>
  new Promise((resolve, reject) => {
    const file = program();
    const options = { cwd: dirname(configuration), timeout: CHECK_TIME_MAX, maxBuffer: OUTPUT_BYTES_MAX };
    execFile(file, [...args, '-c', configuration], options, (error, stdout, stderr) => {
      if (error?.code === 'ENOENT') reject(new Error(`${file} is not there. Install Forebay, or set forebay.path to the program.`));
      else if (error?.killed) reject(new Error(`forebay ${args[0]} was stopped: it took longer than ${CHECK_TIME_MAX / 1000} s.`));
      else if (stdout === '') reject(new Error(stderr.trim() || error?.message || `forebay ${args[0]} printed nothing.`));
      else resolve(stdout);
    });
  });

/** Keeps the problems of all configurations, and checks one when a file of it is saved. */
class Checker {
  #shown = vscode.languages.createDiagnosticCollection('forebay');
  /** Problems by configuration, then by file. */
  #found = new Map();
  /** Configurations that are being checked; true: once more after that. */
  #running = new Map();
  #complaint;
  #onChange;

  constructor(onChange) {
    this.#onChange = onChange;
  }

  dispose() {
    this.#shown.dispose();
  }

  of(file) {
    return [...this.#found.values()].flatMap((byFile) => byFile.get(file) ?? []);
  }

  async check(file) {
    // A check loads scripts and rules.
    const configuration = vscode.workspace.isTrusted && CHECKED.test(file) ? configurationOf(file) : undefined;
    if (!configuration) return;
    if (this.#running.has(configuration)) {
      this.#running.set(configuration, true);
      return;
    }
    do {
      this.#running.set(configuration, false);
      try {
        this.#show(configuration, problemsByFile(await run(['check', '--json'], configuration), configuration));
        this.#complaint = undefined;
      } catch (error) {
        // The same is said once, not at each save.
        if (this.#complaint !== error.message) vscode.window.showErrorMessage(`Forebay: ${error.message}`);
        this.#complaint = error.message;
      }
    } while (this.#running.get(configuration));
    this.#running.delete(configuration);
  }

  #show(configuration, byFile) {
    const before = this.#found.get(configuration) ?? new Map();
    this.#found.set(configuration, byFile);
    const severities = { error: vscode.DiagnosticSeverity.Error, warning: vscode.DiagnosticSeverity.Warning, note: vscode.DiagnosticSeverity.Information };
    for (const file of new Set([...before.keys(), ...byFile.keys()])) {
      const diagnostics = this.of(file).map(({ line, start, end, severity, message, suggestion }) => {
        const diagnostic = new vscode.Diagnostic(new vscode.Range(line, start, line, end), message, severities[severity]);
        diagnostic.source = 'forebay';
        diagnostic.code = suggestion;
        return diagnostic;
      });
      this.#shown.set(vscode.Uri.file(file), diagnostics);
    }
    this.#onChange();
  }
}

/** Offers to replace a misspelt name. */
const quickFixes = {
  provideCodeActions: (document, _range, { diagnostics }) =>
    diagnostics
      .filter(({ source, code }) => source === 'forebay' && code !== undefined)
      .map((diagnostic) => {
        const action = new vscode.CodeAction(`Replace by ${diagnostic.code}`, vscode.CodeActionKind.QuickFix);
        action.diagnostics = [diagnostic];
        action.isPreferred = true;
        action.edit = new vscode.WorkspaceEdit();
        action.edit.replace(document.uri, diagnostic.range, diagnostic.code);
        return action;
      }),
};

/** Draws the graph of the workflow in the active editor. `problemsOf` gives the problems of a file. */
class GraphPanel {
  #panel;
  #document;
  #problemsOf;

  constructor(problemsOf) {
    this.#problemsOf = problemsOf;
  }

  dispose() {
    this.#panel?.dispose();
  }

  show() {
    this.#document = vscode.window.activeTextEditor?.document;
    if (this.#panel) {
      this.#panel.reveal(undefined, true);
      return this.draw();
    }
    this.#panel = vscode.window.createWebviewPanel('forebay.graph', 'Graph', { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true }, { enableScripts: true, localResourceRoots: [] });
    this.#panel.onDidDispose(() => (this.#panel = undefined));
    this.#panel.webview.onDidReceiveMessage(({ node }) => (node === undefined ? this.draw() : this.#reveal(node)));
    this.#panel.webview.html = page(randomUUID());
  }

  /** Draws again if there is a panel; keeps the last drawing while the text is not JSON. */
  async draw(document = this.#document) {
    const graph = this.#panel && document && (await graphIn(document));
    if (!graph) return;
    const { draw } = await import('./graph.mjs');
    this.#document = document;
    this.#panel.title = `Graph of ${basename(document.uri.fsPath)}`;
    this.#panel.webview.postMessage({ drawing: draw(graph, problemsByNode(this.#problemsOf(document.uri.fsPath))) });
  }

  async #reveal(node) {
    const offset = offsetOfNode(this.#document.getText(), node);
    if (offset < 0) return;
    const editor = await vscode.window.showTextDocument(this.#document, vscode.ViewColumn.One);
    const at = this.#document.positionAt(offset);
    editor.selection = new vscode.Selection(at, at);
    editor.revealRange(new vscode.Range(at, at), vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  }
}

/** The graph in a document, if it is a workflow. */
const graphIn = async (document) => {
  if (document.languageId !== 'json') return undefined;
  const { graphOf } = await import('./graph.mjs');
  try {
    const text = document.getText();
    return text.length <= GRAPH_TEXT_MAX ? graphOf(JSON.parse(text)) : undefined;
  } catch {
    return undefined;
  }
};

/** Runs a command for the configuration of the active editor, or else for the first one of the workspace. */
const forConfiguration = (command) => async () => {
  const active = vscode.window.activeTextEditor?.document.uri.fsPath;
  const configuration = (active && configurationOf(active)) ?? (await vscode.workspace.findFiles(`**/${CONFIGURATION}`, '**/node_modules/**', 1))[0]?.fsPath;
  try {
    if (!vscode.workspace.isTrusted) throw new Error('this workspace is not trusted, so nothing of it is run: “Workspaces: Manage Workspace Trust” changes that.');
    if (!configuration) throw new Error(`this workspace has no ${CONFIGURATION}; \`forebay new DIR\` writes one.`);
    await command(configuration);
  } catch (error) {
    vscode.window.showErrorMessage(`Forebay: ${error.message}`);
  }
};

const serve = (configuration) => {
  const terminal = vscode.window.createTerminal({ name: 'Forebay', cwd: dirname(configuration), shellPath: program(), shellArgs: ['serve', '--watch', '-c', configuration] });
  terminal.show();
};

const openConsole = async (configuration) => {
  const effective = await run(['check'], configuration);
  const address = /^\[admin\]\nlisten = "(.+:\d+)"$/m.exec(effective)?.[1];
  if (!address) throw new Error('the admin listener is off: `listen` under [admin] is its address.');
  await vscode.env.openExternal(vscode.Uri.parse(`http://${address}/`));
};

/** Writes the schema of the installed version, and refers to it in the first line. */
const addSchema = async (configuration) => {
  const name = 'forebay.schema.json';
  const schema = await run(['check', '--schema'], configuration);
  await vscode.workspace.fs.writeFile(vscode.Uri.file(join(dirname(configuration), name)), Buffer.from(schema));
  const document = await vscode.workspace.openTextDocument(configuration);
  if (/^#:schema /m.test(document.getText())) return;
  const edit = new vscode.WorkspaceEdit();
  edit.insert(document.uri, new vscode.Position(0, 0), `#:schema ./${name}\n`);
  await vscode.workspace.applyEdit(edit);
};

exports.activate = ({ subscriptions }) => {
  const checker = new Checker(() => panel.draw());
  const panel = new GraphPanel((file) => checker.of(file));
  const follow = async (editor) => {
    const graph = editor && (await graphIn(editor.document));
    vscode.commands.executeCommand('setContext', 'forebay.isWorkflow', graph !== undefined);
    if (graph) await panel.draw(editor.document);
  };
  subscriptions.push(
    checker,
    panel,
    vscode.languages.registerCodeActionsProvider({ language: 'toml' }, quickFixes, { providedCodeActionKinds: [vscode.CodeActionKind.QuickFix] }),
    vscode.workspace.onDidSaveTextDocument(({ uri }) => checker.check(uri.fsPath)),
    vscode.workspace.onDidOpenTextDocument(({ uri }) => basename(uri.fsPath) === CONFIGURATION && checker.check(uri.fsPath)),
    vscode.workspace.onDidChangeTextDocument(({ document }) => document === vscode.window.activeTextEditor?.document && follow(vscode.window.activeTextEditor)),
    vscode.window.onDidChangeActiveTextEditor(follow),
    vscode.commands.registerCommand('forebay.showGraph', () => panel.show()),
    vscode.commands.registerCommand('forebay.serve', forConfiguration(serve)),
    vscode.commands.registerCommand('forebay.openConsole', forConfiguration(openConsole)),
    vscode.commands.registerCommand('forebay.addSchema', forConfiguration(addSchema)),
  );
  follow(vscode.window.activeTextEditor);
  for (const { uri } of vscode.workspace.textDocuments) if (basename(uri.fsPath) === CONFIGURATION) checker.check(uri.fsPath);
};
