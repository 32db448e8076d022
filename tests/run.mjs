#!/usr/bin/env node
// Runs every test of the project: builds all test programs once, then runs the suites side by side, says how each ended as it ends, and names
// the slowest tests. `make test` calls it after it has fetched what the tests need. Arguments choose suites by a part of their name:
//
//   node tests/run.mjs            all of them
//   node tests/run.mjs pool node  those with `pool` or `node` in their name
//
// With LINT=1 in the environment, `make lint` is one of the suites.

import { spawn } from 'node:child_process';
import { existsSync, readFileSync, readdirSync, statfsSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const ROOT = join(dirname(fileURLToPath(import.meta.url)), '..');
const TARGET = process.env.CARGO_TARGET_DIR ?? join(ROOT, 'target');
const CORES = availableParallelism();
const SLOWEST = 10;
/** Longest first, so that no core is left alone with one of them; the others follow in any order. */
const LONGEST_FIRST = ['cli/it', 'python'];
/** Suites that no clock judges have the lowest priority, and run on the CPU time that others leave: beside all, beside those that run alone, or beside the strict ones. */
const BESIDE_ALL = ['lint'];
const BESIDE_ALONE = ['pool/lib', 'store/it'];
const BESIDE_STRICT = ['store/it, on disk', 'packages', 'console'];
const BESIDE = [...BESIDE_ALL, ...BESIDE_ALONE, ...BESIDE_STRICT];
/** Suites that start many processes and hold them to deadlines: one at a time. */
const ALONE = ['testkit/it', 'node', 'bun'];
/** The same with the tightest limits, at the end. */
const STRICT = ['cli/it, timed', 'testkit/it, timed', 'load/it', 'bench', 'store/it, timed'];
/** Suites whose tests mostly wait for other processes: more threads than cores. */
const WAITING = ['testkit/it', 'cli/it'];
/** Tests of a suite that watch what reaches the disk. All others have their files in memory, where there is room for them. */
const ON_DISK = { 'store/it': ['power::', 'recovery::'] };
/** Tests of a suite that hold latencies or deadlines to a limit: they run after the others, one at a time or as many as below. Parts of their names. */
const TIMED = {
  'cli/it': ['bench_ladder::', 'profile::'],
  'store/it': ['full::'],
  'testkit/it': [
    ...['clients::', 'cluster::', 'conservation::', 'crashes::', 'deadlines::', 'faulty_workers::', 'limits::', 'queue::', 'shutdown::', 'slow_clients::'],
    ...['asgi::a_deadline_', 'rule_messages::records_that_kafka_', 'rule_messages::servers_of_mail_that_', 'scripts::a_call_that_cannot_'],
    ...['scripts::what_becomes_', 'sql_pools::a_deadline_', 'techempower::example::the_benchmark_', 'workflow_pools::what_becomes_', 'workflow_times::'],
  ],
};
/** Where two at once leave the limits room. */
const TIMED_AT_ONCE = { 'testkit/it': 2 * CORES };

/** A folder in memory with room for temporary files, some of them programs: writing through to a disk takes stores most of their time. */
const memoryFolder = () => {
  const folder = '/dev/shm';
  const mount = existsSync('/proc/mounts') && readFileSync('/proc/mounts', 'utf8').split('\n').find((line) => line.split(' ')[1] === folder);
  if (!mount || mount.includes('noexec')) return undefined;
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize >= 4 * 2 ** 30 ? folder : undefined;
};
const TEMPORARY = process.env.TMPDIR ?? memoryFolder() ?? tmpdir();

const seconds = (since) => `${((Date.now() - since) / 1000).toFixed(0)} s`;

/** Runs a command and hands over its lines of standard output; resolves to its exit code and what it printed to standard error. */
const run = (command, { cwd = ROOT, env = {}, showErrors = false, onLine }) =>
  new Promise((resolve, reject) => {
    const child = spawn(command[0], command.slice(1), {
      cwd,
      env: { ...process.env, TMPDIR: TEMPORARY, ...env },
      stdio: ['ignore', 'pipe', showErrors ? 'inherit' : 'pipe'],
    });
    let errors = '';
    child.stderr?.setEncoding('utf8').on('data', (text) => (errors = (errors + text).slice(-1_000_000)));
    createInterface(child.stdout).on('line', onLine);
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code: code ?? signal, errors }));
  });

const build = async () => {
  const programs = [];
  const { code } = await run(['cargo', 'test', '--workspace', '--tests', '--no-run', '--message-format=json-render-diagnostics'], {
    showErrors: true,
    onLine: (line) => {
      const { executable, profile, target, manifest_path: manifest } = JSON.parse(line);
      if (executable && profile?.test) programs.push({ executable, target, folder: dirname(manifest) });
    },
  });
  if (code !== 0) process.exit(1);
  return programs;
};

/** A test program of cargo. libtest tells how long each test took only as an unstable feature, which the variable allows. */
const rust = ({ executable, target, folder }) => {
  const name = `${folder.slice(join(ROOT, 'x').length - 1).replace(/^crates\//, '')}/${target.kind[0] === 'test' ? target.name : target.kind[0]}`;
  const suite = (name, options, env = {}) => ({
    name,
    cwd: folder,
    env: { ...env, RUSTC_BOOTSTRAP: '1', CARGO_MANIFEST_DIR: folder, FOREBAY_BINARY: join(TARGET, 'debug/forebay') },
    command: [executable, '-Zunstable-options', '--format=json', '--report-time', ...options],
    read: (line, suite) => {
      if (!line.startsWith('{ "type"')) return suite.output.push(line);
      const event = JSON.parse(line);
      if (event.type !== 'test' || !['ok', 'failed'].includes(event.event)) return;
      suite.test(event.name, event.exec_time, event.event === 'ok', event.stdout);
    },
  });
  const threads = `--test-threads=${WAITING.includes(name) ? 4 * CORES : CORES}`;
  const timed = TIMED[name] ?? [];
  const onDisk = ON_DISK[name] ?? [];
  const suites = [suite(name, [threads, ...[...timed, ...onDisk].flatMap((part) => ['--skip', part])])];
  if (timed.length > 0) suites.push(suite(`${name}, timed`, [`--test-threads=${TIMED_AT_ONCE[name] ?? 1}`, ...timed]));
  if (onDisk.length > 0) suites.push(suite(`${name}, on disk`, [threads, ...onDisk], { TMPDIR: tmpdir() }));
  return suites;
};

/** Node's test runner; `reporter.mjs` prints a line of JSON for each test. `command` runs a file with it, in place of the files of `test`. */
const node = (name, cwd, options = [], command = undefined) => ({
  name,
  cwd: join(ROOT, cwd),
  command: [
    process.execPath,
    command ?? '--test',
    ...options,
    `--test-reporter=${join(ROOT, 'tests/reporter.mjs')}`,
    '--test-reporter-destination=stdout',
    ...(command ? [] : readdirSync(join(ROOT, cwd, 'test')).filter((file) => file.endsWith('.test.mjs')).map((file) => join('test', file))),
  ],
  read: (line, suite) => {
    if (!line.startsWith('{"test"')) return suite.output.push(line);
    const { test, seconds, passed, error } = JSON.parse(line);
    suite.test(test, seconds, passed, error);
  },
});

/** A program that only its exit code and its output speak for; `count` finds the number of its tests there. */
const other = (name, cwd, command, count) => ({
  name,
  cwd: join(ROOT, cwd),
  command,
  count,
  read: (line, suite) => suite.output.push(line),
});

/** CPU time, in seconds, of all processes that have ended. The kernel counts a suite's, its children's included, when the suite ends. */
const cpu = () => {
  if (!existsSync('/proc/self/stat')) return 0;
  const fields = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ');
  return (Number(fields[13]) + Number(fields[14])) / 100;
};

const finish = async (suite) => {
  const since = Date.now();
  suite.output = [];
  suite.tests = [];
  suite.failures = [];
  suite.test = (name, seconds = 0, passed, output) => {
    suite.tests.push({ name: `${suite.name}: ${name}`, seconds });
    if (!passed) suite.failures.push({ name, output });
  };
  const command = BESIDE.includes(suite.name) ? ['nice', '-n', '19', ...suite.command] : suite.command;
  const { code, errors } = await run(command, { ...suite, onLine: (line) => suite.read(line, suite) });
  const used = cpu() - counted;
  counted += used;
  const count = suite.tests.length || [...`${suite.output.join('\n')}\n${errors}`.matchAll(suite.count ?? /$^/g)].reduce((sum, [, n]) => sum + Number(n), 0);
  suite.count = count;
  suite.failed = code !== 0 || suite.failures.length > 0;
  console.log(`${suite.failed ? 'FAILED' : 'ok    '}  ${suite.name.padEnd(22)} ${String(count).padStart(5)} tests  ${seconds(since).padStart(6)}  ${used.toFixed(0).padStart(4)} s of CPU`);
  if (!suite.failed) return;
  for (const { name, output } of suite.failures) console.log(`\n---- ${suite.name}: ${name}\n${output ?? ''}`);
  if (suite.failures.length === 0) console.log(`\n---- ${suite.name} ended with ${code}\n${suite.output.slice(-200).join('\n')}\n${errors}`);
};

const started = Date.now();
let counted = 0;
const wanted = process.argv.slice(2);
const rank = ({ name }) => (LONGEST_FIRST.includes(name) ? LONGEST_FIRST.indexOf(name) : LONGEST_FIRST.length);

console.log('Building the test programs and the server ...');
const programs = await build();
console.log(`Built after ${seconds(started)}. Running, the longest first:`);
counted = cpu();
const suites = [
  ...programs.flatMap(rust),
  node('node', 'sdk/node', ['--test-timeout=60000', `--test-concurrency=${2 * CORES}`]),
  other('bun', 'sdk/node', ['npm', 'run', '--silent', 'test:bun', '--', `--parallel=${2 * CORES}`], /^Ran (\d+) tests/gm),
  other('python', 'sdk/python', ['tests/.venv/bin/python', '-W', 'error', '-m', 'unittest', 'discover', '--start-directory', 'tests', '--top-level-directory', '.'], /^Ran (\d+) tests/gm),
  node('bench', 'bench'),
  { ...node('docs', 'docs', ['--test-timeout=120000']), env: { FOREBAY_BINARY: join(TARGET, 'debug/forebay') } },
  node('examples', 'tests', ['--test-timeout=60000'], 'examples.mjs'),
  { ...node('packages', 'deploy', ['--test-timeout=600000']), env: { FOREBAY_BINARY: join(TARGET, 'debug/forebay') } },
  { ...node('editors', 'editors', ['--test-timeout=60000']), env: { FOREBAY_BINARY: join(TARGET, 'debug/forebay') } },
  { ...node('console', 'console', ['--test-timeout=600000']), env: { FOREBAY_BINARY: join(TARGET, 'debug/forebay') } },
  ...(process.env.LINT ? [other('lint', '.', ['make', '--no-print-directory', 'lint'])] : []),
]
  .filter(({ name }) => wanted.length === 0 || wanted.some((part) => name.includes(part)))
  .sort((a, b) => rank(a) - rank(b));
const named = (names) => names.flatMap((wanted) => suites.filter(({ name }) => name === wanted));
const queue = suites.filter(({ name }) => ![...ALONE, ...STRICT, ...BESIDE].includes(name));
const oneByOne = async (queue) => {
  for (let next = queue.shift(); next; next = queue.shift()) await finish(next);
};
const beside = named(BESIDE_ALL).map(finish);
// One more at a time than there are cores: each of them waits for a third of its time.
await Promise.all(Array.from({ length: CORES + 1 }, () => oneByOne(queue)));
beside.push(oneByOne(named(BESIDE_ALONE)));
await oneByOne(named(ALONE));
beside.push(...named(BESIDE_STRICT).map(finish));
await oneByOne(named(STRICT));
await Promise.all(beside);

const slowest = suites.flatMap(({ tests }) => tests).sort((a, b) => b.seconds - a.seconds).slice(0, SLOWEST);
if (slowest.length > 0) console.log('\nThe slowest tests:');
for (const { name, seconds } of slowest) console.log(`${seconds.toFixed(1).padStart(7)} s  ${name}`);
const failed = suites.filter(({ failed }) => failed);
const total = suites.reduce((sum, { count }) => sum + count, 0);
console.log(`\n${total} tests in ${seconds(started)}${failed.length === 0 ? ', all passed' : `; failed: ${failed.map(({ name }) => name).join(', ')}`}`);
process.exit(failed.length === 0 ? 0 : 1);
