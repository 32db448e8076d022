/** The real server for tests. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/** Options of {@link serve}. */
export interface ServeOptions {
  /** Folder in which the command is run; the current one when left out. */
  cwd?: string;
  /** Environment variables, added to those of this process. */
  env?: Readonly<Record<string, string>>;
}

/** A server that runs for a test. */
export interface TestServer {
  /** Where it listens: `http://127.0.0.1:41207`. */
  readonly url: string;
  /** What it has logged so far. */
  readonly log: string;
  /** Ends it as SIGTERM does, with the requests that it has read. Rejects with its log if it does not end well. */
  stop(): Promise<void>;
}

/** How long a server may take to listen. */
const START_MS = 30_000;
const SIGNALS: readonly NodeJS.Signals[] = ['SIGINT', 'SIGTERM'];

/**
 * Starts the command `forebay serve`, found in `PATH`, on a free port and without an admin listener, for tests of what is configured: routes,
 * statements, authentication, jobs.
 *
 * ```js
 * const server = await serve(['-c', 'forebay.toml']);
 * const response = await fetch(`${server.url}/hello/ada`);
 * await server.stop();
 * ```
 *
 * `args` are further arguments, such as `--listen unix:web.sock`. Rejects if the server ends, or does not listen within 30 seconds. A server
 * that is not stopped ends with this process.
 */
export async function serve(args: readonly string[] = [], { cwd, env }: ServeOptions = {}): Promise<TestServer> {
  const server = spawn('forebay', ['serve', '--listen', '127.0.0.1:0', '--admin', 'off', ...args], {
    cwd,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  server.stderr.setEncoding('utf8').on('data', (text: string) => (log += text));
  const ended = once(server, 'close') as Promise<[code: number | null, signal: string | null]>;
  const kill = () => server.kill('SIGKILL');
  // Node's test runner ends a file that takes too long by SIGTERM, at which 'exit' is not emitted.
  const killBoth = (signal: NodeJS.Signals) => {
    kill();
    forget();
    process.kill(process.pid, signal);
  };
  const forget = () => {
    process.off('exit', kill);
    for (const signal of SIGNALS) process.off(signal, killBoth);
  };
  process.on('exit', kill);
  for (const signal of SIGNALS) process.on(signal, killBoth);
  const late = setTimeout(kill, START_MS);
  try {
    const url = await Promise.race([
      listening(server.stdout),
      ended.then(([code, signal]) => Promise.reject(new Error(`forebay serve ended with ${code ?? signal}:\n${log}`))),
    ]);
    return {
      url,
      get log() {
        return log;
      },
      async stop() {
        server.kill();
        const [code, signal] = await ended;
        forget();
        if (code !== 0) throw new Error(`forebay serve ended with ${code ?? signal}:\n${log}`);
      },
    };
  } catch (error) {
    forget();
    throw error;
  } finally {
    clearTimeout(late);
  }
}

/** The first address in the line that the server prints when it listens. */
async function listening(output: NodeJS.ReadableStream): Promise<string> {
  return new Promise((resolve) => {
    createInterface(output).on('line', (line) => {
      const [, url] = /listening on (http:\S+[^\s,])/.exec(line) ?? [];
      if (url !== undefined) resolve(url);
    });
  });
}
