// The examples of README.md, run as printed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Peer } from './peer.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const [handler, page, store, articles, test] = [...readFileSync(`${root}README.md`, 'utf8').matchAll(/```js\n(.*?)```/gs)].map(([, code]) => code);

it('the README shows a handler that works, and a test of it that passes', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'forebay-readme-'));
  context.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'api.mjs'), handler);
  writeFileSync(join(folder, 'api.test.mjs'), test);
  const peer = await Peer.start(context, { handler: join(folder, 'api.mjs') });
  assert.deepEqual((await peer.fetch({ path: '/users/7' })).json(), { name: 'Ada' });
  const made = await peer.fetch({ method: 'POST', path: '/users', body: '{"name":"Bo"}' });
  assert.equal(made.header('location'), '/users/8');
  await peer.stop();
  // Installed where a test can import it.
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules', 'forebay'));
  const { NODE_TEST_CONTEXT, ...env } = process.env;
  execFileSync(process.execPath, ['--test', 'api.test.mjs'], { cwd: folder, env, stdio: 'pipe' });
});

it('the README shows a page whose values are text', async (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'forebay-readme-'));
  context.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'pages.mjs'), page);
  const peer = await Peer.start(context, { handler: join(folder, 'pages.mjs') });
  const answer = await peer.fetch({ path: '/users' });
  assert.equal(answer.text, '<table><tr><td>1</td><td>A &amp; B</td></tr></table>');
  await peer.stop();
});

it('the README shows what a program does with a store', (context) => {
  const folder = mkdtempSync(join(tmpdir(), 'forebay-readme-'));
  context.after(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, 'people.mjs'), store);
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(root, join(folder, 'node_modules', 'forebay'));
  writeFileSync(join(folder, 'articles.mjs'), articles);
  const printed = execFileSync(process.execPath, ['people.mjs'], { cwd: folder, encoding: 'utf8' });
  assert.equal(printed, "7 Ada\n7 [ 'x', 'y', 'z' ]\n1 7\nnot_json cannot store NaN at .born\n");
  const found = execFileSync(process.execPath, ['articles.mjs'], { cwd: folder, encoding: 'utf8' });
  assert.equal(found, `1 {"kind":"Article","stars":4,"title":"Sample"} [ 'Sample' ] [ 1 ]\n`);
});
