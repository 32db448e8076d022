// The guide "From QOper8 to Forebay": its examples run as printed, and it mentions every option, event and method.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { QOper8 } from '../dist/qoper8/index.js';

const run = promisify(execFile);
const root = fileURLToPath(new URL('..', import.meta.url));
const guide = readFileSync(new URL('../../../docs/guide/from-qoper8.md', import.meta.url), 'utf8');
const files = [...guide.matchAll(/```js\n\/\/ (\S+)\n(.*?)```/gs)];
const sessions = [...guide.matchAll(/```\n\$ node (\S+)\n(.*?)```/gs)];

describe('the guide from QOper8', () => {
  it('shows programs that print what it says', async (context) => {
    const folder = mkdtempSync(join(tmpdir(), 'forebay-guide-'));
    context.after(() => rmSync(folder, { recursive: true }));
    mkdirSync(join(folder, 'node_modules'));
    symlinkSync(root, join(folder, 'node_modules', 'forebay'));
    symlinkSync(join(root, 'node_modules', 'fastify'), join(folder, 'node_modules', 'fastify'));
    for (const [, name, text] of files) writeFileSync(join(folder, name), text);
    assert.deepEqual(sessions.map(([, name]) => name), ['app.mjs', 'server.mjs', 'pool.mjs']);
    for (const [, name, said] of sessions) {
      const { stdout } = await run(process.execPath, [name], { cwd: folder });
      assert.equal(stdout, said, name);
    }
  });

  it('names every option, member, event and code', () => {
    const declared = (file, pattern) => [...readFileSync(`${root}src/${file}`, 'utf8').matchAll(pattern)].map(([, name]) => name);
    const [options] = readFileSync(`${root}src/qoper8/options.ts`, 'utf8').match(/export interface QOper8Options \{.*?\n\}/s);
    const names = [
      ...[...options.matchAll(/^ {2}(\w+)\?:/gm)].map(([, name]) => name),
      ...Object.getOwnPropertyNames(QOper8.prototype).filter((name) => !['constructor', 'deliver', 'abort', 'replied', 'failed'].includes(name)),
      ...Object.keys(new QOper8()),
      ...declared('qoper8/qoper8.ts', /emit\('(\w+)'/g),
      ...declared('qoper8/self.ts', /emit\('(\w+)'/g),
      ...declared('pool/errors.ts', /^ {2}\| '(\w+)'/gm),
    ];
    const [self] = readFileSync(`${root}src/qoper8/self.ts`, 'utf8').match(/export interface HandlerThis \{.*?\n\}/s);
    names.push(...[...self.matchAll(/^ {2}(\w+)[(:]/gm)].map(([, name]) => name));
    assert.ok(names.length > 70);
    for (const name of names) assert.match(guide, new RegExp(`\`(?:[^\`\\n]*\\W)?${name}(?:\\W[^\`\\n]*)?\``), name);
  });
});
