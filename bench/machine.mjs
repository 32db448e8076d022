// The description of the environment that every result includes.

import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import os from 'node:os';
import { SetupError } from './options.mjs';
import { gtmVersion } from './peers/gtm.mjs';
import { versions } from './peers/installed.mjs';
import { redisVersion } from './peers/redis.mjs';
import { light4jVersion } from './peers/light4j.mjs';

/** The machine, and the versions of everything involved. `binary` is Forebay's, or null. */
export function describe(binary, repository) {
  return {
    cpu: os.cpus()[0].model.trim(),
    cores: os.availableParallelism(),
    memory_bytes: os.totalmem(),
    kernel: `${os.type()} ${os.release()} ${os.machine()}`,
    system: /^PRETTY_NAME="(.*)"$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? null,
    temporary_files_on: execFileSync('stat', ['-f', '-c', '%T', os.tmpdir()], { encoding: 'utf8' }).trim(),
    load_at_start: os.loadavg()[0],
    versions: {
      forebay: binary && forebayVersion(binary),
      ...versions(),
      'light-4j': light4jVersion(),
      redis: redisVersion(),
      'GT.M': gtmVersion(),
    },
    commit: commit(repository),
  };
}

function forebayVersion(binary) {
  const { status, stdout, stderr, error } = spawnSync(binary, ['version'], { encoding: 'utf8' });
  if (status !== 0) throw new SetupError(`${binary} version: ${error?.message ?? stderr.trim().split('\n', 1)[0]}`);
  return stdout.trim().split('\n', 1)[0].replace(/^forebay /, '');
}

/** The commit of the sources, with `+` if there are local changes; null outside of a repository. */
function commit(repository) {
  try {
    const git = (...args) => execFileSync('git', ['-C', repository, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    return git('rev-parse', 'HEAD').trim() + (git('status', '--porcelain').trim() ? '+' : '');
  } catch {
    return null;
  }
}
