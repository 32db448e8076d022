// Servers for Python applications, running the same Flask application as a Python pool of Forebay.

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { freePort, getWhenReady } from '../http.mjs';
import { launch } from '../processes.mjs';
import { program } from './installed.mjs';

const environment = fileURLToPath(new URL('.venv', import.meta.url));

/** The Python interpreter with Flask and the peers installed. */
export const python = `${environment}/bin/python`;

/** The Flask application, answering /helloworld. */
export const application = program('flask_hello.py');

/** How to install the Python peers; null if they are installed. */
export const lackingPython = () => (existsSync(`${environment}/installed`) ? null : 'make bench/peers/.venv/installed');

const VERSIONS = `
import json, platform
from importlib.metadata import distributions
names = ("flask", "gunicorn", "gunicorn_h1c", "granian")
print(json.dumps({"python": platform.python_version(), **{each.name.lower(): each.version for each in distributions() if each.name.lower() in names}}))
`;

/** Versions of Python and its peers, by name; empty if they are not installed. */
export function pythonVersions() {
  return lackingPython() === null ? JSON.parse(execFileSync(python, ['-c', VERSIONS], { encoding: 'utf8' })) : {};
}

function server(name, args) {
  return {
    name,
    lacking: lackingPython,
    async start() {
      const port = await freePort();
      const env = { PATH: process.env.PATH, PYTHONDONTWRITEBYTECODE: '1' };
      const process_ = launch(name, python, ['-m', ...args(port)], { env, cwd: dirname(application) });
      const url = `http://127.0.0.1:${port}`;
      await getWhenReady(`${url}/helloworld`, process_);
      return { process: process_, url };
    },
  };
}

/**
 * gunicorn with `workers` processes and keep-alive connections. Four threads answer, since idle connections need none; of 2, 4, 20 and 64,
 * four were the fastest. With `gunicorn[fast]` installed, it uses that parser in C.
 */
export const gunicorn = (workers) =>
  server(`gunicorn, ${workers} gthread`, (port) => [
    'gunicorn.app.wsgiapp',
    ...['--workers', String(workers), '--worker-class', 'gthread', '--threads', '4', '--keep-alive', '30'],
    ...['--log-level', 'warning', '--bind', `127.0.0.1:${port}`, 'flask_hello:app'],
  ]);

/** Granian's WSGI server with `workers` processes. */
export const granian = (workers) =>
  server(`Granian WSGI, ${workers}`, (port) => [
    'granian',
    ...['--interface', 'wsgi', '--http', '1', '--no-ws', '--workers', String(workers)],
    ...['--log-level', 'warning', '--port', String(port), 'flask_hello:app'],
  ]);
