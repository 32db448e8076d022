// The examples of docs/guide/pool-library.md and of the README's section on pools, run as printed.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Pool } from '../dist/pool/index.js';
import { folder } from './pools.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));

/** Makes a folder with the package and with those examples of a document that have file names. */
function examples(test, document) {
  const path = folder(test);
  for (const [, name, code] of readFileSync(document, 'utf8').matchAll(/```js\n\/\/ ([\w-]+\.mjs)\n(.*?)```/gs)) writeFileSync(join(path, name), code);
  mkdirSync(join(path, 'node_modules'));
  symlinkSync(root, join(path, 'node_modules', 'forebay'));
  return (program) => execFileSync(process.execPath, [program], { cwd: path, encoding: 'utf8' });
}

const guide = fileURLToPath(new URL('../../../docs/guide/pool-library.md', import.meta.url));

it('the guide shows programs that print what it says', (test) => {
  const run = examples(test, guide);
  assert.equal(run('program.mjs'), "{ name: 'ada-100.png', by: 1 }\nhandler_error width 0 is too small\n");
  assert.equal(run('stream.mjs'), '1\n2\n3\nall\n');
  assert.equal(run('greet.mjs'), "{ hello: 'Ada' }\n");
  assert.deepEqual(run('orders.mjs').split('\n').sort(), ['', 'answered ada-100.png', 'kept']);
});

it('the guide names every option', () => {
  const text = readFileSync(guide, 'utf8');
  let named = '';
  try {
    new Pool({ nothing: true });
  } catch (error) {
    named = error.message;
  }
  const options = named.slice(named.indexOf('there are ') + 10).split(', ');
  assert.ok(options.length > 20);
  for (const option of options) assert.ok(text.includes(`\`${option}\``), `option ${option}`);
});

it('the README shows a program with a pool', (test) => {
  assert.equal(examples(test, `${root}README.md`)('report.mjs'), '{ total: 6 }\n');
});
