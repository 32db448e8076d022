// Shared helpers of the store tests.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import { StoreError, open } from '../dist/store/index.js';

const folder = mkdtempSync(join(tmpdir(), 'forebay-store-'));
after(() => rmSync(folder, { recursive: true }));
let count = 0;

/** Makes a new folder, deleted after the tests of the file. */
export function freshFolder() {
  return join(folder, String(++count));
}

/** A store that no other test uses. */
export function freshStore(options = { durability: 'relaxed' }) {
  return open(freshFolder(), options);
}

function program(source) {
  const file = join(folder, `program-${++count}.mjs`);
  const modules = new URL('../dist/', import.meta.url);
  writeFileSync(file, source.replace(/from '\.\/(.*?)'/g, (_, name) => `from '${new URL(name, modules).href}'`));
  return file;
}

/** Runs a program in its own process and returns its output; `./` is the package's `dist`. */
export function run(source, env = {}) {
  const { NODE_TEST_CONTEXT, ...rest } = process.env;
  return execFileSync(process.execPath, [program(source)], { encoding: 'utf8', env: { ...rest, ...env }, stdio: ['pipe', 'pipe', 'inherit'] });
}

/** Starts a program that is ended with the test, however that ends; `line()` waits for its next line of output. */
export function start(test, source) {
  const child = spawn(process.execPath, [program(source)], { stdio: ['pipe', 'pipe', 'inherit'] });
  test.after(() => {
    child.kill('SIGKILL');
    return child.exited;
  });
  child.stdout.setEncoding('utf8');
  const lines = [];
  const waiting = [];
  let rest = '';
  child.stdout.on('data', (text) => {
    const parts = (rest + text).split('\n');
    rest = parts.pop();
    for (const line of parts) (waiting.shift() ?? ((line) => lines.push(line)))(line);
  });
  child.line = () => (lines.length > 0 ? Promise.resolve(lines.shift()) : new Promise((resolve) => waiting.push(resolve)));
  child.exited = new Promise((resolve) => child.on('exit', resolve));
  return child;
}

/** Runs an action as in a process that was given no store, although a handler may be under test. */
export function withoutStore(action) {
  process.env.FOREBAY_STORE_MODE = 'none';
  try {
    return action();
  } finally {
    delete process.env.FOREBAY_STORE_MODE;
  }
}

/** Asserts that an action throws a StoreError with this code. */
export function refuses(code, action, message) {
  assert.throws(action, (error) => {
    assert.ok(error instanceof StoreError, String(error.stack));
    assert.equal(error.code, code, error.message);
    if (message !== undefined) assert.match(error.message, message);
    return true;
  });
}
