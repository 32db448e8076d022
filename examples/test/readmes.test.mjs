// The `console` blocks of the examples' READMEs, run as printed, each README in a copy of its folder. Of what is expected, `…` is any text.
// Commands share their environment as in one shell; `forebay serve` runs until the end.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { serve } from 'forebay/testing';

const EXAMPLES = fileURLToPath(new URL('..', import.meta.url));
/** What a server listens on beside its port. */
const SOCKETS = { shop: ['--listen', 'unix:server.sock'] };

function* commands(readme) {
  for (const [, block] of readme.matchAll(/```console\n(.*?)```/gs)) {
    for (const part of block.split(/^\$ /m).slice(1)) {
      const [, command, expected] = /^((?:[^\n]*\\\n)*[^\n]*)\n(.*)$/s.exec(part);
      yield { command, expected };
    }
  }
}

const pattern = (expected) => new RegExp(`^${expected.split('…').map((text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')).join('.*')}$`);

for (const name of ['shop', 'api', 'decisions']) {
  test(`the commands in the README of ${name} print what it says`, async (context) => {
    const folder = mkdtempSync(join(tmpdir(), `forebay-${name}-`));
    context.after(() => rmSync(folder, { recursive: true }));
    const cwd = join(folder, name);
    cpSync(join(EXAMPLES, name), cwd, { recursive: true, filter: (path) => !['data', 'node_modules'].includes(basename(path)) });
    const variables = join(cwd, 'development.env');
    if (existsSync(variables)) writeFileSync(variables, readFileSync(variables, 'utf8').replace(/^DATABASE_URL=.*$/m, `DATABASE_URL='${process.env.DATABASE_URL}'`));
    let env = process.env;
    let server;
    try {
      for (const { command, expected } of commands(readFileSync(join(cwd, 'README.md'), 'utf8'))) {
        if (command.startsWith('forebay serve')) {
          server = await serve(SOCKETS[name], { cwd, env });
          continue;
        }
        const shell = `set -e\n${command.replaceAll('http://127.0.0.1:8080', server?.url)}\nenv -0 >&3`;
        const after = join(folder, 'env');
        const printed = execFileSync('bash', ['-c', `exec 3>"$0" 2>&1\n${shell}`, after], { cwd, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
        assert.match(`${printed.trimEnd()}\n`.trimStart(), pattern(expected), command);
        env = Object.fromEntries(readFileSync(after, 'utf8').split('\0').filter(Boolean).map((line) => line.split(/=(.*)/s)));
      }
    } finally {
      await server?.stop();
    }
  });
}
