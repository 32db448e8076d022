// The benchmark program; see README.md in this folder.

import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import { dirname, join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe } from './machine.mjs';
import { HELP, parseOptions, SetupError } from './options.mjs';
import { missing } from './peers/installed.mjs';
import { stopAll } from './processes.mjs';
import { renderContest, renderLaps, renderRows, renderWarnings } from './report.mjs';
import { suites } from './suites/index.mjs';

const repository = fileURLToPath(new URL('..', import.meta.url));
const folder = mkdtempSync(join(os.tmpdir(), 'forebay-bench-'));

async function end(code) {
  await stopAll();
  rmSync(folder, { recursive: true, force: true });
  process.exit(code);
}

for (const [name, code] of [['SIGINT', 130], ['SIGTERM', 143]]) process.once(name, () => end(code));
process.once('uncaughtException', (error) => {
  console.error(error);
  end(2);
});

/** Missing requirements, as sentences. */
function unmet(chosen, binary) {
  const found = missing();
  if (chosen.some(({ needsForebay }) => needsForebay) && !existsSync(binary)) {
    found.push(`${binary} not found: make dist, or name it with --forebay; the suites noise and peers do without`);
  }
  return found;
}

function progress(text) {
  if (process.stderr.isTTY) process.stderr.write(`\r\x1b[K  ${text}`);
}

/** Runs one suite and prints its results; a suite that fails becomes one row with the reason. */
async function runSuite(suite, context) {
  console.log(`\n${suite.name}: ${suite.title}`);
  let outcome;
  try {
    outcome = await suite.run(context);
  } catch (error) {
    console.log(`  ERROR: ${error.message}`);
    return { name: suite.name, title: suite.title, error: error.message, rows: [] };
  } finally {
    progress('');
  }
  const { rows, rounds, contest } = outcome;
  const parts = [rounds && renderLaps(rounds), contest && renderContest(contest), renderRows(rows), renderWarnings(outcome)];
  console.log(parts.filter(Boolean).join('\n\n'));
  return { name: suite.name, title: suite.title, ...outcome };
}

async function main() {
  const options = parseOptions(process.argv.slice(2), suites.map(({ name }) => name));
  if (options.help) {
    console.log(HELP);
    return 0;
  }
  const chosen = suites.filter(({ name }) => options.suites.includes(name));
  const binary = resolve(options.forebay ?? join(repository, 'target/dist/forebay'));
  const problems = unmet(chosen, binary);
  if (problems.length > 0) throw new SetupError(problems.join('\n'));
  const date = new Date().toISOString();
  const machine = describe(chosen.some(({ needsForebay }) => needsForebay) ? binary : null, repository);
  console.log(`${machine.cpu}, ${machine.cores} cores, ${machine.kernel}, temporary files on ${machine.temporary_files_on}`);
  console.log(Object.entries(machine.versions).map(([name, version]) => `${name} ${version ?? '-'}`).join(', '));

  const context = { binary, folder, progress, ...options.amounts };
  const results = [];
  for (const suite of chosen) results.push(await runSuite(suite, context));

  const file = resolve(options.json ?? join(repository, `bench/results/${date.slice(0, 19).replaceAll(':', '-')}.json`));
  mkdirSync(dirname(file), { recursive: true });
  const command = ['node bench/run.mjs', ...process.argv.slice(2)].join(' ');
  writeFileSync(file, `${JSON.stringify({ date, command, machine, amounts: options.amounts, suites: results }, null, 1)}\n`);
  console.log(`\nwritten: ${file}`);
  const failed = results.some(({ error, rows }) => error || rows.some(({ verdict }) => verdict === 'MISS' || verdict === 'INVALID'));
  return failed ? 1 : 0;
}

try {
  await end(await main());
} catch (error) {
  console.error(error instanceof SetupError ? error.message : error);
  await end(2);
}
