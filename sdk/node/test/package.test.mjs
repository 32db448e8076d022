// The published package.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { copyFileSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { unsupported } from '../dist/supported.js';
import { VERSION } from '../dist/version.js';
import { reference } from '../reference.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const compiler = `${root}node_modules/typescript/bin/tsc`;
const manifest = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));

describe('the package', () => {
  it('has one version', () => assert.equal(VERSION, manifest.version));

  it('runs in what its engines name, and in nothing older', () => {
    assert.deepEqual(manifest.engines, { node: '^22.15 || >=24', bun: '>=1.2' });
    for (const node of ['22.15.0', '22.23.3', '24.0.0', '25.1.0']) {
      assert.equal(unsupported({ node }), undefined, node);
    }
    for (const node of ['18.20.0', '20.0.0', '20.20.2', '21.9.0', '22.12.0', '22.14.9', '23.11.0']) {
      assert.equal(unsupported({ node }), `this is Node ${node}, and workers need Node 22.15, 24 or newer`);
    }
    assert.equal(unsupported({ node: '18.0.0', bun: '1.2.0' }), undefined);
    assert.equal(unsupported({ node: '24.0.0', bun: '1.1.9' }), 'this is Bun 1.1.9, and workers need Bun 1.2 or newer');
  });

  it('says in one sentence why a worker does not start in an older Node', () => {
    const older = `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } })`;
    const { status, stderr } = spawnSync(
      process.execPath,
      ['--import', `data:text/javascript,${encodeURIComponent(older)}`, `${root}dist/worker.js`],
      { encoding: 'utf8' },
    );
    assert.deepEqual(
      [status, stderr],
      [1, 'forebay: this is Node 20.20.2, and workers need Node 22.15, 24 or newer\n'],
    );
  });

  it('has no runtime dependencies', () => {
    for (const key of ['dependencies', 'peerDependencies', 'optionalDependencies']) assert.equal(manifest[key], undefined);
  });

  it('ships what its exports name', () => {
    for (const entry of Object.values(manifest.exports)) {
      for (const file of Object.values(entry)) assert.ok(existsSync(root + file), file);
    }
  });

  it('ships declarations for every module', () => {
    // Except the libraries of others, which rules require by their names.
    const isOwn = (name) => name.endsWith('.js') && !name.startsWith('rules/libraries/');
    const modules = readdirSync(`${root}dist`, { recursive: true }).filter(isOwn);
    for (const name of modules) assert.ok(existsSync(`${root}dist/${name.replace(/js$/, 'd.ts')}`), name);
  });

  it('locks its development tools without naming a registry', () => {
    assert.doesNotMatch(readFileSync(`${root}package-lock.json`, 'utf8'), /"resolved"|registry/);
  });

  it('declares every code of the errors of a store, and no other', () => {
    const read = (path) => readFileSync(root + path, 'utf8');
    const found = (text, pattern) => [...text.matchAll(pattern)].map(([, code]) => code);
    const sources = readdirSync(`${root}src`, { recursive: true }).filter((name) => name.endsWith('.ts'));
    const thrown = sources.flatMap((name) => found(read(`src/${name}`), /new StoreError\('(\w+)'/g));
    const told = ['facade', 'database'].flatMap((folder) => found(read(`../../crates/store/src/${folder}/error.rs`), /=> "(\w+)"/g));
    const ofRecords = found(read('../../crates/records/src/facade/mod.rs'), /=> "(\w+)"/g);
    const refused = found(read('../../crates/script/src/host/store.rs'), /code: "(\w+)"/g);
    assert.ok(thrown.length > 0 && told.length > 0 && ofRecords.length > 0 && refused.length > 0);
    const declared = found(read('src/store/error.ts'), /^ {2}\| '(\w+)'/gm);
    assert.deepEqual(declared.toSorted(), [...new Set([...thrown, ...told, ...ofRecords, ...refused])].toSorted());
  });

  it('has a reference page that says what its declarations say', () => {
    const page = `${root}../../docs/reference/javascript.md`;
    if (process.env.FOREBAY_REFRESH !== undefined) writeFileSync(page, reference());
    assert.equal(readFileSync(page, 'utf8'), reference(), 'docs/reference/javascript.md is stale; refresh it: FOREBAY_REFRESH=1 node --test sdk/node/test/package.test.mjs');
  });

  for (const options of [['--module', 'nodenext'], ['--module', 'preserve']]) {
    it(`gives a new project in TypeScript its types, with ${options.join(' ')}`, (test) => {
      const folder = mkdtempSync(join(tmpdir(), 'forebay-types-'));
      test.after(() => rmSync(folder, { recursive: true }));
      const installed = join(folder, 'node_modules/forebay');
      mkdirSync(installed, { recursive: true });
      copyFileSync(`${root}package.json`, join(installed, 'package.json'));
      cpSync(`${root}dist`, join(installed, 'dist'), { recursive: true, filter: (name) => !/\.(js|node)$/.test(name) });
      symlinkSync(`${root}node_modules/@types`, join(folder, 'node_modules/@types'));
      copyFileSync(`${root}test/project.ts`, join(folder, 'app.mts'));
      const strict = ['--strict', '--target', 'es2023', '--types', 'node', '--noEmit'];
      const { status, stdout } = spawnSync(process.execPath, [compiler, ...strict, ...options, 'app.mts'], { cwd: folder, encoding: 'utf8' });
      assert.deepEqual([status, stdout], [0, '']);
    });
  }

  it('has types that know patterns, bodies and contexts', () => {
    execFileSync(process.execPath, [compiler, '--project', `${root}test/tsconfig.json`], { stdio: 'inherit' });
  });
});
