#!/usr/bin/env node
// Runs the tests of the example applications as their owners would: with the command `forebay` in PATH, the package `forebay` installed, and
// an empty PostgreSQL at DATABASE_URL. Further arguments are for `node --test`.

import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdirSync, rmSync, symlinkSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
const TARGET = join(process.env.CARGO_TARGET_DIR ?? join(ROOT, 'target'), 'debug');
const EXAMPLES = join(ROOT, 'examples');
const SDK = join(ROOT, 'sdk/node');

const modules = join(EXAMPLES, 'node_modules');
mkdirSync(modules, { recursive: true });
for (const [name, target] of [['forebay', SDK], ['@types', join(SDK, 'node_modules/@types')]]) {
  rmSync(join(modules, name), { force: true });
  symlinkSync(target, join(modules, name));
}
execFileSync(join(SDK, 'node_modules/.bin/tsc'), { cwd: join(EXAMPLES, 'api'), stdio: 'inherit' });

// It lives until its standard input ends.
const postgres = spawn(join(TARGET, 'forebay-postgres'), ['run'], { stdio: ['pipe', 'pipe', 'inherit'] });
const [url] = await once(createInterface(postgres.stdout), 'line');
const files = globSync(['test/*.test.mjs', '*/test/*.test.{mjs,ts}'], { cwd: EXAMPLES });
const tests = spawn(process.execPath, ['--env-file=api/development.env', '--test', ...process.argv.slice(2), ...files], {
  cwd: EXAMPLES,
  env: { ...process.env, PATH: [TARGET, dirname(process.execPath), process.env.PATH].join(delimiter), DATABASE_URL: url },
  stdio: 'inherit',
});
[process.exitCode] = await once(tests, 'close');
postgres.stdin.end();
await once(postgres, 'close');
