// The package as it is published.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { VERSION } from '../dist/version.js';

const root = fileURLToPath(new URL('..', import.meta.url));
const manifest = JSON.parse(readFileSync(`${root}package.json`, 'utf8'));

describe('the package', () => {
  it('has one version', () => assert.equal(VERSION, manifest.version));

  it('has no runtime dependencies', () => {
    for (const key of ['dependencies', 'peerDependencies', 'optionalDependencies']) assert.equal(manifest[key], undefined);
  });

  it('ships what its exports name', () => {
    for (const entry of Object.values(manifest.exports)) {
      for (const file of Object.values(entry)) assert.ok(existsSync(root + file), file);
    }
  });

  it('ships declarations for every module', () => {
    const modules = readdirSync(`${root}dist`, { recursive: true }).filter((name) => name.endsWith('.js'));
    for (const name of modules) assert.ok(existsSync(`${root}dist/${name.replace(/js$/, 'd.ts')}`), name);
  });

  it('locks its development tools without naming a registry', () => {
    assert.doesNotMatch(readFileSync(`${root}package-lock.json`, 'utf8'), /"resolved"|registry/);
  });

  it('has types that know patterns, bodies and contexts', () => {
    const compiler = fileURLToPath(new URL('../node_modules/typescript/bin/tsc', import.meta.url));
    execFileSync(process.execPath, [compiler, '--project', `${root}test/tsconfig.json`], { stdio: 'inherit' });
  });
});
