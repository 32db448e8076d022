// Starts and ends every process of the benchmark. Each is ended by its own id, together with the descendants seen
// below it, so nothing outlives the benchmark: not after an error, not after Ctrl-C. (Only kill -9 of the benchmark itself leaves
// the current server running.)

import { spawn } from 'node:child_process';
import { processTree, startTime } from './proc.mjs';

const OUTPUT_KEPT = 8192; // characters of each process's output, for error messages
const STOP_GRACE_MS = 5000; // between SIGTERM and SIGKILL

const running = new Set();
let closing = false;

/**
 * A process started by `launch`. `exited` resolves to `{code, signal}` when the process has ended, `drained` when all output
 * of it and of its descendants has been read as well; neither rejects.
 */
class Running {
  #output = '';
  #watchers = new Set();

  constructor(name, child) {
    this.name = name;
    this.child = child;
    this.pid = child.pid;
    this.exited = new Promise((resolve) => {
      child.once('error', (error) => resolve({ code: null, signal: null, error }));
      child.once('exit', (code, signal) => resolve({ code, signal }));
    });
    this.drained = new Promise((resolve) => child.once('close', resolve));
    this.exited.then((end) => {
      this.end = end;
      running.delete(this);
      for (const watcher of this.#watchers) watcher();
    });
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding('utf8');
      stream?.on('data', (text) => this.#take(text));
    }
  }

  /** The last part of the process's output, with both streams mixed. */
  get output() {
    return this.#output;
  }

  /** Resolves to the match once the output so far matches `pattern`; rejects if the process ends or the timeout passes. */
  waitForOutput(pattern, timeout_ms) {
    return new Promise((resolve, reject) => {
      const settle = (action, value) => {
        clearTimeout(timer);
        this.#watchers.delete(look);
        action(value);
      };
      const look = () => {
        const match = pattern.exec(this.#output);
        if (match) settle(resolve, match);
        else if (this.end) settle(reject, this.failure('ended before it was ready'));
      };
      const timer = setTimeout(
        () => settle(reject, this.failure(`did not print ${pattern} within ${timeout_ms} ms`)),
        timeout_ms,
      );
      this.#watchers.add(look);
      look();
    });
  }

  /** An error that names the process, says what happened and shows its output. */
  failure(what) {
    const how = this.end ? ` (${describeEnd(this.end)})` : '';
    return new Error(`${this.name} ${what}${how}; it printed:\n${this.#output.trim() || '(nothing)'}`);
  }

  #take(text) {
    this.#output = (this.#output + text).slice(-OUTPUT_KEPT);
    for (const watcher of this.#watchers) watcher();
  }
}

function describeEnd({ code, signal, error }) {
  if (error) return error.message;
  return signal ? `ended by ${signal}` : `exit code ${code}`;
}

/**
 * Starts `command` in its own process group, so that Ctrl-C in the terminal reaches only the benchmark; as another user with `uid` and
 * `gid`.
 */
export function launch(name, command, args, { env, cwd, stdin = 'ignore', uid, gid } = {}) {
  if (closing) throw new Error('the bench is ending');
  const child = spawn(command, args, { env, cwd, uid, gid, detached: true, stdio: [stdin, 'pipe', 'pipe'] });
  const process_ = new Running(name, child);
  running.add(process_);
  return process_;
}

/** Ends the process and everything that it started; resolves when the process has ended and the rest has been killed. */
export async function stop(process_) {
  if (process_.pid === undefined) return; // it never started
  const below = process_.end ? [] : processTree(process_.pid).slice(1);
  if (!process_.end) {
    signal(process_.pid, 'SIGTERM');
    const timer = setTimeout(() => signal(process_.pid, 'SIGKILL'), STOP_GRACE_MS);
    await process_.exited;
    clearTimeout(timer);
  }
  signal(-process_.pid, 'SIGKILL'); // whatever is left of its process group
  for (const { pid, started } of below) {
    if (startTime(pid) === started) signal(pid, 'SIGKILL'); // descendants that had left the group
  }
  await process_.drained;
}

function signal(pid, name) {
  try {
    process.kill(pid, name);
  } catch (error) {
    if (error.code !== 'ESRCH') throw error; // gone in the meantime
  }
}

/** Ends everything that is still running, and refuses new starts. */
export async function stopAll() {
  closing = true;
  await Promise.all([...running].map(stop));
}

/** Runs a program to its end and returns its standard output; throws if it fails. */
export async function runToEnd(name, command, args, options = {}) {
  const process_ = launch(name, command, args, options);
  let text = '';
  process_.child.stdout.on('data', (part) => {
    text += part;
  });
  const { code } = await process_.exited;
  await process_.drained;
  if (code !== 0) throw process_.failure('failed');
  return text;
}
