// The page that shows a workflow's graph beside its file. The extension sends it the drawing, and is told which node was chosen.
'use strict';

const STYLE = `
body { margin: 0; padding: 0; background: var(--vscode-editor-background); color: var(--vscode-foreground); }
svg { display: block; margin: 0 auto; font: 13px var(--vscode-font-family, sans-serif); }
text { fill: var(--vscode-editor-foreground); text-anchor: middle; }
.kind { fill: var(--vscode-descriptionForeground); font-size: 11px; }
rect { fill: var(--vscode-editorWidget-background); stroke: var(--vscode-editorWidget-border, currentColor); stroke-width: 1.2; }
path { fill: none; stroke: var(--vscode-descriptionForeground); stroke-width: 1.3; }
marker path { fill: var(--vscode-descriptionForeground); stroke: none; }
.edge text { fill: var(--vscode-descriptionForeground); font-size: 11px; }
.node { cursor: pointer; outline: none; }
.node:hover rect, .node:focus-visible rect { stroke: var(--vscode-focusBorder); stroke-width: 2.4; }
.node.warning rect { stroke: var(--vscode-editorWarning-foreground); stroke-width: 2.4; }
.node.error rect { stroke: var(--vscode-editorError-foreground); stroke-width: 2.4; }
p { padding: 1em; font: 13px var(--vscode-font-family, sans-serif); }
`;

const SCRIPT = `
const code = acquireVsCodeApi();
addEventListener('message', ({ data }) => { document.body.innerHTML = data.drawing; });
const choose = ({ target }) => {
  const node = target.closest('[data-id]');
  if (node) code.postMessage({ node: node.dataset.id });
};
addEventListener('click', choose);
addEventListener('keydown', (event) => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); choose(event); } });
code.postMessage({ ready: true });
`;

/** The page; `nonce` is a random word, without which nothing runs in it. */
const page = (nonce) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'nonce-${nonce}'; script-src 'nonce-${nonce}'">
<title>Graph</title>
<style nonce="${nonce}">${STYLE}</style>
</head>
<body><script nonce="${nonce}">${SCRIPT}</script></body>
</html>
`;

module.exports = { page };
