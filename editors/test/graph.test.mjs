// Graphs as pictures: where nodes and edges come to lie, and what a browser makes of the drawing.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { draw, graphOf, layout } from '../graph/graph.mjs';

const { page } = createRequire(import.meta.url)('../vscode/panel.js');
const EXAMPLES = new URL('../../examples/workflows/workflows/', import.meta.url);
const example = (name) => graphOf(JSON.parse(readFileSync(new URL(`${name}.json`, EXAMPLES), 'utf8')));
const graph = (edges, ids = [...new Set(edges.flat())]) => ({ nodes: ids.map((id) => ({ id, label: id, kind: 'RUN' })), edges: edges.map(([from, to]) => ({ from, to })) });
const place = (placed) => Object.fromEntries(placed.nodes.map((node) => [node.id, node]));

test('graphs of rules and decisions are read; anything else is none', () => {
  const { nodes, edges } = example('promotion');
  assert.deepEqual([nodes.length, edges.length], [14, 13]);
  assert.deepEqual(nodes[2], { id: '21', kind: 'RELATION within-promotion', label: 'within the promotion' });
  assert.deepEqual(nodes[3], { id: '31', kind: 'LOGICAL', label: 'ALL_AND' });
  assert.deepEqual(example('shipping').nodes[1], { id: 'fees', kind: 'decisionTable', label: 'fees' });
  const content = { statements: [{ id: 's', condition: 'a > 1' }] };
  assert.equal(graphOf({ nodes: [{ id: 'a', type: 'switchNode', content }], edges: [{ sourceId: 'a', targetId: 'b', sourceHandle: 's' }] }).edges[0].label, 'a > 1');
  for (const other of [null, 7, [], {}, { nodes: [] }, { nodes: {}, edges: [] }]) assert.equal(graphOf(other), undefined);
  assert.deepEqual(graphOf({ nodes: [null, {}, { id: 1 }], edges: [null] }).nodes.map(({ id }) => id), ['1']);
});

test('each node lies below those before it, none overlaps another, and edges join their nodes', () => {
  let seed = 42;
  const random = (below) => (seed = (seed * 1103515245 + 12345) % 2 ** 31) % below;
  const graphs = [example('promotion'), example('shipping'), graph([['a', 'b'], ['a', 'c'], ['b', 'd'], ['c', 'd'], ['a', 'd']])];
  for (let count = 2; count < 60; count += 3) graphs.push(graph(Array.from({ length: count }, (_, at) => [`${random(at + 1)}`, `${at + 1 + random(3)}`])));
  for (const one of graphs) {
    const placed = layout(one);
    const at = place(placed);
    for (const { from, to, points } of placed.edges) {
      assert.ok(at[from].y + at[from].height < at[to].y, `${from} above ${to}`);
      assert.deepEqual(points[0], [at[from].x + at[from].width / 2, at[from].y + at[from].height].map((number) => Math.round(number * 10) / 10));
      assert.deepEqual(points.at(-1)[1], at[to].y);
    }
    placed.nodes.forEach((a, index) => {
      for (const b of placed.nodes.slice(index + 1)) assert.ok(a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y, `${a.id} and ${b.id}`);
      assert.ok(a.x >= 0 && a.y >= 0 && a.x + a.width <= placed.width && a.y + a.height <= placed.height, a.id);
    });
  }
});

test('a tree is drawn without crossings, and a parent stands over the middle of its children', () => {
  const tree = layout(graph([['r', 'a'], ['r', 'b'], ['b', 'd'], ['a', 'c'], ['b', 'e'], ['a', 'f']]));
  const at = place(tree);
  assert.ok(Math.max(at.c.x, at.f.x) < Math.min(at.d.x, at.e.x));
  const middle = (id) => at[id].x + at[id].width / 2;
  assert.ok(Math.abs(middle('a') - (middle('c') + middle('f')) / 2) < 1);
});

test('an edge over several layers goes around the nodes between', () => {
  const placed = layout(graph([['a', 'b'], ['b', 'c'], ['a', 'c']]));
  const b = place(placed).b;
  const [, [x]] = placed.edges[2].points;
  assert.equal(placed.edges[2].points.length, 3);
  assert.ok(x < b.x || x > b.x + b.width);
});

test('cycles, loops, double ids and edges to nowhere are drawn as far as they can be', () => {
  const cyclic = graph([['a', 'b'], ['b', 'c'], ['c', 'a'], ['b', 'b'], ['a', 'z']], ['a', 'b', 'c', 'a']);
  cyclic.nodes[3].label = 'another of the same id';
  const placed = layout(cyclic);
  const { a, b, c } = place(placed);
  assert.ok(a.y < b.y && b.y < c.y && a.width === b.width);
  assert.deepEqual(placed.nodes.map(({ id }) => id), ['a', 'b', 'c']);
  assert.deepEqual(placed.edges.map(({ from, to }) => from + to), ['ab', 'bc', 'ca', 'bb']);
  const [first, last] = [placed.edges[2].points[0], placed.edges[2].points.at(-1)];
  assert.ok(first[1] > last[1], 'the edge that closes the cycle leads upwards');
  assert.deepEqual(layout({ nodes: [], edges: [] }), { width: 16, height: 32, nodes: [], edges: [] });
});

test('the largest graph that the server takes is laid out', () => {
  const ids = Array.from({ length: 10_000 }, (_, at) => `${at}`);
  for (const parent of [(at) => at, (at) => at >> 1, () => 0]) assert.equal(layout(graph(ids.slice(1).map((id, at) => [`${parent(at)}`, id]))).nodes.length, 10_000);
  const long = ids.slice(1).flatMap((id, at) => [[`${at}`, id], ['0', id]]);
  assert.equal(layout(graph(long)).edges.length, long.length);
});

test('the panel in Chromium shows every node with its label inside, marks problems, and says which node was chosen', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'forebay-graph-'));
  try {
    const problems = { 51: { severity: 'error', message: 'there is no rule `recharged-120`' }, 62: { severity: 'warning', message: 'it & <that>' } };
    const drawing = draw(example('promotion'), problems);
    // In place of VS Code: sends the drawing once the page is ready, then clicks a node and presses a key on another.
    const host = `<style nonce="n">:root { --vscode-editor-background: #1e1e1e; --vscode-editor-foreground: #ddd; --vscode-descriptionForeground: #999; --vscode-editorWidget-background: #252526; --vscode-editorError-foreground: #f14c4c; --vscode-editorWarning-foreground: #cca700; }</style>
      <script nonce="n">const told = []; const acquireVsCodeApi = () => ({ postMessage: (message) => { told.push(message); if (message.ready) postMessage({ drawing: ${JSON.stringify(drawing)} }); } });
      addEventListener('message', () => setTimeout(() => {
        document.querySelector('[data-id="63"] text').dispatchEvent(new MouseEvent('click', { bubbles: true }));
        document.querySelector('[data-id="71"]').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
        const outside = [...document.querySelectorAll('.node')].filter((node) => [...node.querySelectorAll('text')].some((text) => text.getBBox().width > node.querySelector('rect').getBBox().width - 8));
        const strokes = ['51', '62', '63'].map((id) => getComputedStyle(document.querySelector('[data-id="' + id + '"] rect')).stroke);
        document.documentElement.dataset.seen = JSON.stringify({ nodes: document.querySelectorAll('.node').length, outside: outside.map((node) => node.dataset.id), strokes, title: document.querySelector('[data-id="62"] title').textContent, told });
      }));</script>`;
    writeFileSync(join(folder, 'panel.html'), page('n').replace('<style', `${host}<style`));
    const chromium = ['--headless', '--no-sandbox', '--disable-gpu', `--user-data-dir=${join(folder, 'profile')}`, '--window-size=900,720', '--virtual-time-budget=10000', `--screenshot=${process.env.FOREBAY_SCREENSHOT ?? join(folder, 'panel.png')}`, '--dump-dom', `file://${join(folder, 'panel.html')}`];
    const { stdout } = await promisify(execFile)(process.env.FOREBAY_CHROMIUM ?? 'chromium', chromium, { timeout: 60_000 });
    const seen = JSON.parse(/data-seen="(.+?)"/.exec(stdout)[1].replaceAll('&quot;', '"').replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&'));
    assert.deepEqual(seen, {
      nodes: 14,
      outside: [],
      strokes: ['rgb(241, 76, 76)', 'rgb(204, 167, 0)', seen.strokes[2]],
      title: 'warning: it & <that>',
      told: [{ ready: true }, { node: '63' }, { node: '71' }],
    });
    assert.ok(!seen.strokes.slice(0, 2).includes(seen.strokes[2]));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
