// Follows README.md, the tutorials, and the pages about moving from another server as a reader would: in an empty folder, block by block.
//
//   a block behind a line that ends with `NAME`:   the file of that name; behind "Add to `NAME`:", more of it
//   ```console, lines that start with $            commands, each with the output that must follow; `forebay serve` stays, in a terminal of its own
//   ```console without such a line                 what the server has printed by then
//   Ctrl-C in the text                             ends the server, which must exit with 0; the command `kill` ends it, too
//   any other block                                is for the reader
//
// In expected output, `...` stands for anything, as a line for any lines. What differs from run to run is compared by kind (VARYING).
// With FOREBAY_REFRESH=1, output of commands that is different is put into the page.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { createInterface } from 'node:readline';
import { after, describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

const DOCS = join(dirname(fileURLToPath(import.meta.url)), '..');
const ROOT = join(DOCS, '..');
const BINARY = process.env.FOREBAY_BINARY ?? join(ROOT, 'target/debug/forebay');
/** A folder with the packages of npm, which are installed then. */
const PACKAGES = process.env.FOREBAY_PACKAGES;
/** The address in the pages. Each page gets one of its own among those of this machine. */
const ADDRESS = '127.0.0.1:8080';
let pagesBegun = 0;
const ownAddress = () => `127.${1 + ((process.pid >> 8) % 254)}.${process.pid % 256}.${++pagesBegun}:8080`;
const TIMEOUT_MS = 30_000;

const VARYING = [
  [/\b\d+(\.\d+)? ?(us|µs|ms|s)\b/g, '<time>'],
  [/\b\d+(\.\d+)? [KMG]i?B\b/g, '<size>'],
  [/\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?/g, '<date>'],
  [/\b[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT/g, '<date>'],
  [/\b\d{13}\b/g, '<milliseconds since 1970>'],
  [/\b[0-9a-f]{32}\b|\b(?!0{8})[0-9a-f]{16}\b/g, '<id>'],
  [/(\bpid[ =])\d+/g, '$1<process>'],
  [/ +/g, ' '],
  [/^(\w+ \d+ )\d+( (?:ready|busy|starting)\b)/gm, '$1<process>$2'],
  [/ +$/gm, ''],
];

const comparable = (text) => VARYING.reduce((text, [kind, name]) => text.replace(kind, name), text);

const escaped = (text) => text.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&');

/** A pattern of expected output. */
const pattern = (lines) =>
  comparable(lines.join('\n'))
    .split('\n')
    .map((line) => (line === '...' ? '(?:.*\n)*?' : `${line.split('...').map(escaped).join('.*?')}\n`))
    .join('');

/** The steps of a page: what it says, file by file and command by command. */
const steps = (page) => {
  const found = [];
  let before = '';
  let block;
  page.split('\n').forEach((line, index) => {
    if (block !== undefined && line === '```') {
      if (block.language === 'console') found.push(...commands(block));
      else if (block.file !== undefined) found.push({ at: block.at, file: block.file, more: block.more, text: block.lines.join('\n') + '\n' });
      block = undefined;
      before = '';
    } else if (block !== undefined) {
      block.lines.push(line);
    } else if (line.startsWith('```')) {
      const [, file] = /`([^`\s]+)`:$/.exec(before) ?? [];
      block = { at: index + 1, language: line.slice(3), file, more: /\bAdd to `[^`]+`:$/.test(before), lines: [] };
    } else {
      if (line.includes('Ctrl-C')) found.push({ at: index + 1, stop: true });
      if (line !== '') before = line;
    }
  });
  assert.equal(block, undefined, 'a block has no end');
  return found;
};

/** The commands of a block. A line that ends with a backslash continues in the next one. */
const commands = ({ at, lines }) => {
  const found = [];
  lines.forEach((line, index) => {
    const last = found.at(-1);
    if (line.startsWith('$ ')) found.push({ at: at + index + 1, command: line.slice(2), expected: [] });
    else if (last?.command?.endsWith('\\') && last.expected.length === 0) last.command += `\n${line}`;
    else if (last !== undefined) last.expected.push(line);
    else found.push({ at: at + 1, expected: [line] });
  });
  return found;
};

const link = (cwd, from, to) => {
  assert.ok(existsSync(from), `${from} is missing: \`make deps sdk\``);
  mkdirSync(dirname(join(cwd, to)), { recursive: true });
  symlinkSync(from, join(cwd, to));
};

/** Commands that would fetch from the internet, or need more than the packages of Forebay, and what takes their place. */
const PROVIDED = new Map([
  ['npm install --offline ~/packages/forebay-*.tgz', PACKAGES === undefined && ((cwd) => link(cwd, join(ROOT, 'sdk/node'), 'node_modules/forebay'))],
  ['npm install express', (cwd) => link(cwd, join(ROOT, 'crates/testkit/applications/node_modules'), 'node_modules')],
  ['python3 -m venv .venv', () => {}],
  ['.venv/bin/pip install fastapi', (cwd) => link(cwd, join(ROOT, 'sdk/python/tests/.venv'), '.venv')],
  ['docker run --detach --rm --name tutorial --publish 127.0.0.1:5432:5432 \\\n  --env POSTGRES_PASSWORD=tutorial postgres', async () => (await postgresql()).url],
  [
    'docker exec --interactive tutorial psql --username postgres < tasks.sql',
    async (cwd) => (await postgresql()).run(`${readFileSync(join(cwd, 'tasks.sql'), 'utf8')} grant all on tasks to public`),
  ],
  ['docker stop tutorial', () => {}],
]);
const DATABASE_URL = 'postgres://postgres:tutorial@127.0.0.1:5432/postgres?sslmode=disable';

let database;
/** A PostgreSQL, the same for all pages: its address, and what runs statements in it. */
const postgresql = () => {
  database ??= new Promise((resolve, reject) => {
    const server = spawn(join(dirname(BINARY), 'forebay-postgres'), ['run'], { stdio: ['pipe', 'pipe', 'inherit'] });
    after(() => server.stdin.end());
    server.on('error', reject);
    server.on('close', (code) => reject(new Error(`forebay-postgres ended with ${code}`)));
    const lines = createInterface(server.stdout)[Symbol.asyncIterator]();
    const line = async () => (await lines.next()).value;
    const run = async (statements) => {
      server.stdin.write(`${statements.replaceAll('\n', ' ')}\n`);
      assert.equal(await line(), 'done');
    };
    (async () => resolve({ url: await line(), folder: await line(), run }))();
  });
  return database;
};

class Reader {
  #home = mkdtempSync(join(tmpdir(), 'forebay-tutorial-'));
  #cwd = this.#home;
  #exports = '';
  #server;
  #database = DATABASE_URL;
  /** Output to put into the page. */
  refreshed = process.env.FOREBAY_REFRESH ? [] : undefined;
  address = ownAddress();

  constructor() {
    mkdirSync(join(this.#home, '.bin'));
    symlinkSync(BINARY, join(this.#home, '.bin/forebay'));
    if (PACKAGES !== undefined) symlinkSync(PACKAGES, join(this.#home, 'packages'));
    // On a terminal curl shows no progress.
    writeFileSync(join(this.#home, '.curlrc'), 'silent\nshow-error\n');
    const path = `${join(this.#home, '.bin')}:${dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`;
    this.env = { PATH: path, HOME: this.#home, LANG: 'C.UTF-8', NO_COLOR: '1', TERM: 'dumb', npm_config_update_notifier: 'false', npm_config_audit: 'false', npm_config_fund: 'false' };
  }

  async follow(page) {
    try {
      for (const step of steps(page)) {
        await this.#take(step).catch((error) => {
          throw new Error(`line ${step.at}: ${error.message}`, { cause: error });
        });
      }
      if (existsSync(join(this.#cwd, 'forebay.toml'))) assert.equal((await this.#run('forebay check >check.log 2>&1 || cat check.log')), '', 'the last configuration is not valid');
      if (this.#server !== undefined) await this.#stop();
    } finally {
      await this.#stop().catch(() => {});
      rmSync(this.#home, { recursive: true, force: true });
    }
  }

  async #take({ at, file, more, text, stop, command, expected }) {
    if (file !== undefined) {
      mkdirSync(dirname(join(this.#cwd, file)), { recursive: true });
      return (more ? appendFileSync : writeFileSync)(join(this.#cwd, file), text);
    }
    if (stop) return this.#stop();
    if (command === undefined) return this.#printed(expected);
    if (PROVIDED.get(command)) {
      this.#database = (await PROVIDED.get(command)(this.#cwd)) ?? this.#database;
      return undefined;
    }
    if (command.startsWith('export ')) {
      this.#exports += `${this.#substituted(command)}\n`;
    } else if (command.startsWith('cd ')) {
      this.#cwd = join(this.#cwd, command.slice(3));
      assert.ok(existsSync(this.#cwd), `there is no folder ${command.slice(3)}`);
    } else if (command.startsWith('forebay serve')) {
      this.#start(command);
      return this.#printed(expected);
    } else {
      const output = await this.#run(command);
      if (command.startsWith('kill ')) await this.#ended();
      const isExpected = new RegExp(`^${pattern(expected)}\n*$`).test(`${comparable(output)}\n`);
      if (!isExpected && this.refreshed) return this.refreshed.push({ at: at + command.split('\n').length - 1, count: expected.length, lines: output.match(/.+|^$(?=\n)/gm) ?? [] });
      return assert.ok(isExpected, `the output of \`${command}\` is different:\n${output}`);
    }
    return assert.deepEqual(expected, []);
  }

  #substituted(text) {
    return text.replaceAll(ADDRESS, this.address).replaceAll(DATABASE_URL, this.#database);
  }

  #asInPage(text) {
    return text.replaceAll('\r', '').replaceAll(this.address, ADDRESS).replaceAll(this.#home, '/home/ada');
  }

  #shell(command) {
    return { commands: `${this.#exports}${this.#substituted(command)}`, options: { cwd: this.#cwd, env: this.env } };
  }

  /** Runs a command to its end; what it printed. */
  async #run(command) {
    const { commands, options } = this.#shell(command);
    const child = spawn('bash', ['-c', `exec 2>&1\n${commands}`], { ...options, stdio: ['ignore', 'pipe', 'ignore'], timeout: TIMEOUT_MS });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text) => (output += text));
    const code = await new Promise((resolve, reject) => child.on('error', reject).on('close', (code, signal) => resolve(code ?? signal)));
    assert.equal(code, 0, `\`${command}\` ended with ${code}:\n${this.#asInPage(output)}`);
    return this.#asInPage(output);
  }

  /** Starts the server on a terminal, as which `script` acts. Either ends with its parent. */
  #start(command) {
    assert.equal(this.#server, undefined, 'a server is running already: the page must say Ctrl-C');
    const { commands, options } = this.#shell(`exec setpriv --pdeathsig TERM ${command} --listen ${this.address} --admin off`);
    const child = spawn('setpriv', ['--pdeathsig', 'KILL', 'script', '--quiet', '--flush', '--return', '--command', commands, '/dev/null'], { ...options, stdio: ['pipe', 'pipe', 'inherit'] });
    const server = { child, output: '', read: 0, ended: new Promise((resolve) => child.on('error', resolve).on('close', (code) => resolve(code))) };
    child.stdout.setEncoding('utf8').on('data', (text) => (server.output += text));
    this.#server = server;
  }

  /** Waits until the server has printed these lines. */
  async #printed(expected) {
    assert.ok(this.#server, 'no server is running');
    const wanted = new RegExp(`^${pattern(expected)}`, 'm');
    const since = Date.now();
    for (let found; !found; await pause(20)) {
      const text = comparable(this.#asInPage(this.#server.output));
      found = wanted.exec(text.slice(this.#server.read));
      if (found) this.#server.read += found.index + found[0].length;
      const over = this.#server.child.exitCode !== null || Date.now() - since > TIMEOUT_MS;
      assert.ok(found || !over, `the server has not printed\n${expected.join('\n')}\nbut\n${text}`);
    }
  }

  async #stop() {
    this.#server?.child.stdin.write('\x03');
    const code = await this.#ended();
    assert.equal(code, 0, `the server ended with ${code}`);
  }

  /** Waits for the end of the server; its exit code. */
  async #ended() {
    assert.ok(this.#server, 'no server is running');
    const { child, ended } = this.#server;
    this.#server = undefined;
    const timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_MS);
    const code = await ended;
    clearTimeout(timer);
    return code;
  }
}

const follow = async (page) => {
  const reader = new Reader();
  await reader.follow(page);
  return reader;
};

/** Follows a page that is in a file. */
const followFile = async (file) => {
  const page = readFileSync(file, 'utf8');
  const { refreshed } = await follow(page);
  if (!refreshed?.length) return;
  const lines = page.split('\n');
  for (const { at, count, lines: output } of refreshed.reverse()) lines.splice(at, count, ...output);
  writeFileSync(file, lines.join('\n'));
};

const pages = (folder, name) => readdirSync(join(DOCS, folder)).filter((file) => name.test(file)).sort().map((file) => join(DOCS, folder, file));
describe('the pages', { concurrency: 4 }, () => {
  // crates/testkit/tests/it/qoper8.rs runs from-qoper8.md, whose programs have no server.
  for (const file of [join(ROOT, 'README.md'), ...pages('tutorial', /\.md$/), ...pages('internals', /\.md$/), ...pages('guide', /^from-(?!qoper8).*\.md$/)]) {
    test(relative(ROOT, file), () => followFile(file));
  }
});

for (const [what, page, error] of [
  ['a command with another output', '```console\n$ echo a\nb\n```\n', /line 2: the output of `echo a` is different/],
  ['a command with more output', '```console\n$ printf "a\\nb\\n"\na\n```\n', /line 2: the output of .* is different/],
  ['a command that fails', '```console\n$ false\n```\n', /line 2: `false` ended with 1/],
  ['a file that nothing wrote', '```console\n$ cat forebay.toml\n```\n', /line 2: .* ended with 1:\ncat: forebay.toml: No such file/],
  ['a configuration that is not valid', '`forebay.toml`:\n\n```toml\n[server]\nlisen = []\n```\n', /the last configuration is not valid[^]*lisen/],
  ['a server that does not start', '```console\n$ forebay serve\nforebay ... listening on http://127.0.0.1:8080\n```\n', /line 2: the server has not printed[^]*forebay.toml/],
  ['a server that nothing has ended', '`a.toml`:\n\n```toml\n```\n\n```console\n$ forebay serve -c a.toml\nforebay ...\n$ forebay serve -c a.toml\n```\n', /line 9: a server is running already/],
]) {
  test(`the reader notices ${what}`, () => assert.rejects(follow(page), { message: error }));
}

test('in expected output, dots stand for anything, and only what differs from run to run may differ', () => {
  const matches = (expected, actual) => new RegExp(`^${pattern(expected.split('\n'))}$`).test(`${comparable(actual)}\n`);
  assert.ok(matches('a\n...\nz', 'a\nb\nc\nz'));
  assert.ok(matches('a\n...\nz', 'a\nz'));
  assert.ok(matches('{"id":...}', '{"id":7}'));
  assert.ok(matches('started in 16 ms, pid 12', 'started in 1.2 s, pid 99999'));
  assert.ok(matches('api   1  23239  ready', 'api  1  7  ready'));
  assert.ok(!matches('a\nz', 'a\nb\nz'));
  assert.ok(!matches('23 answered', '24 answered'));
  assert.ok(!matches('a.c', 'abc'));
});
