// GT.M, an M engine (Debian package `fis-gtm`), with a loop of its own over the same keys.

import { closeSync, existsSync, openSync, readdirSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { runToEnd } from '../processes.mjs';

const routines = fileURLToPath(new URL('laps', import.meta.url));

/** Names of the operations by label of laps/lap.m. */
const OPERATIONS = { set: 'set', get: 'get', walk: 'walk', setdoc: 'set document', getdoc: 'get document' };

/** Folder of the newest GT.M installed by Debian; null if there is none. */
function installation() {
  const below = (folder) => (existsSync(folder) ? readdirSync(folder).map((name) => join(folder, name)) : []);
  const versions = below('/usr/lib').flatMap((library) => below(join(library, 'fis-gtm')));
  return versions.filter((folder) => existsSync(join(folder, 'mumps'))).sort().at(-1) ?? null;
}

/** Its version, from the name of its folder; null if it is not installed. */
export function gtmVersion() {
  const programs = installation();
  return programs && basename(programs);
}

/** Parses the output of laps/lap.m, in seconds. Throws on anything else: M continues after some errors. */
export function parseGtm(output) {
  const results = {};
  for (const line of output.trim().split('\n')) {
    const match = /^(\w+) (\d+) (\d+) (\d+)$/.exec(line);
    const operation = match && OPERATIONS[match[1]];
    if (!operation) throw new Error(`GT.M printed no result but:\n${output}`);
    results[operation] = { operations: Number(match[2]), seconds: Number(match[3]) / 1e6, cpu_seconds: Number(match[4]) / 100 };
  }
  const absent = Object.values(OPERATIONS).filter((operation) => !results[operation]);
  if (absent.length > 0) throw new Error(`GT.M printed nothing about ${absent.join(', ')}:\n${output}`);
  return results;
}

/** A database held entirely in memory, without a journal. */
export const gtm = {
  name: 'GT.M',
  lacking: () => (installation() ? null : 'apt-get install fis-gtm'),
  async lap({ folder, records, passes }) {
    const programs = installation();
    const env = {
      PATH: process.env.PATH,
      gtm_dist: programs,
      gtmgbldir: join(folder, 'lap.gld'),
      gtmroutines: `${folder}(${routines}) ${programs}/libgtmutil.so`,
      gtm_tmp: folder,
      gtm_log: folder,
      LAP_RECORDS: String(records),
      LAP_PASSES: String(passes),
    };
    const run = (program, ...args) => runToEnd(`GT.M ${program}`, join(programs, program), args, { env, cwd: folder });
    await define(folder, programs, env);
    await run('mupip', 'create');
    try {
      return parseGtm(await run('mumps', '-run', 'lap'));
    } finally {
      await run('mupip', 'rundown', '-region', 'DEFAULT');
    }
  },
};

/** Configures the location of the database; GDE takes its commands from standard input. */
async function define(folder, programs, env) {
  const commands = join(folder, 'gde.in');
  writeFileSync(
    commands,
    `change -segment DEFAULT -file=${join(folder, 'lap.dat')} -access_method=BG -global_buffer_count=65536 -allocation=50000\nexit\n`,
  );
  const stdin = openSync(commands, 'r');
  try {
    await runToEnd('GT.M GDE', join(programs, 'mumps'), ['-run', 'GDE'], { env, cwd: folder, stdin });
  } finally {
    closeSync(stdin);
  }
}
