// What a result must say about where it comes from.

import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import os from 'node:os';
import { versions } from './peers/installed.mjs';

/** The machine and the versions of everything that takes part. `binary` is Forebay's, or null. */
export function describe(binary, repository) {
  return {
    cpu: os.cpus()[0].model.trim(),
    cores: os.availableParallelism(),
    memory_bytes: os.totalmem(),
    kernel: `${os.type()} ${os.release()} ${os.machine()}`,
    system: /^PRETTY_NAME="(.*)"$/m.exec(readFileSync('/etc/os-release', 'utf8'))?.[1] ?? null,
    load_at_start: os.loadavg()[0],
    versions: {
      forebay: binary ? execFileSync(binary, ['version'], { encoding: 'utf8' }).trim() : null,
      ...versions(),
    },
    commit: commit(repository),
  };
}

/** Commit of the sources, with `+` when they have changes; null outside a repository. */
function commit(repository) {
  try {
    const git = (...args) => execFileSync('git', ['-C', repository, ...args], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
    return git('rev-parse', 'HEAD').trim() + (git('status', '--porcelain').trim() ? '+' : '');
  } catch {
    return null;
  }
}
