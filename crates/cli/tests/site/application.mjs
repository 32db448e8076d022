// An application as `forebay new` writes it, and the server that serves it.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const FOREBAY = process.env.FOREBAY_BINARY ?? new URL('../../../../target/debug/forebay', import.meta.url).pathname;

/** A new application, not yet served. */
export class Application {
  #parent = mkdtempSync(join(tmpdir(), 'forebay-site-'));
  #server;

  constructor(...options) {
    this.folder = join(this.#parent, 'app');
    this.run(['new', 'app', '--template', 'records', ...options], this.#parent);
  }

  /** Runs a command of forebay to its end. */
  run(args, cwd = this.folder) {
    const { status, stdout, stderr } = spawnSync(FOREBAY, args, { cwd, encoding: 'utf8' });
    assert.equal(status, 0, `forebay ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  file(name) {
    return readFileSync(join(this.folder, name), 'utf8');
  }

  write(name, text) {
    writeFileSync(join(this.folder, name), text);
  }

  /** Writes lines of `path` and `document` or `value` into its store. */
  import(lines) {
    this.write('lines.ndjson', lines.map((line) => `${typeof line === 'string' ? line : JSON.stringify(line)}\n`).join(''));
    this.run(['store', 'import', 'lines.ndjson']);
  }

  /** Starts its server on a port, a free one when it is left out, and waits until it listens. */
  async serve(port = 0) {
    const server = spawn(FOREBAY, ['serve', '--listen', `127.0.0.1:${port}`, '--admin', 'off'], { cwd: this.folder, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#server = server;
    let log = '';
    server.stderr.setEncoding('utf8').on('data', (text) => (log += text));
    this.url = await new Promise((resolve, reject) => {
      let said = '';
      server.stdout.setEncoding('utf8').on('data', (text) => {
        said += text;
        const url = /listening on (http:\S+)/.exec(said);
        if (url !== null) resolve(url[1]);
      });
      server.once('exit', (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
    });
    return this.url;
  }

  /** Ends its server. */
  async stop() {
    const server = this.#server;
    this.#server = undefined;
    if (server === undefined || server.exitCode !== null) return;
    const ended = new Promise((resolve) => server.once('exit', resolve));
    server.kill('SIGTERM');
    await ended;
  }

  async remove() {
    await this.stop();
    rmSync(this.#parent, { recursive: true, force: true });
  }

  /** A request past the page. */
  async ask(method, path, body, headers = {}) {
    const response = await fetch(this.url + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    return { status: response.status, text, json: text === '' ? undefined : JSON.parse(text), headers: response.headers };
  }

  /** Makes a record past the page, and gives its reference. */
  async create(kind, data) {
    const { status, json, text } = await this.ask('PUT', `/v1/${kind}`, data);
    assert.equal(status, 201, text);
    return json.ref;
  }

  /** A record as it is stored. */
  async read(kind, ref) {
    return (await this.ask('GET', `/v1/${kind}/${ref}`)).json.results?.[0]?.data;
  }
}

/** The lines of so many records of a kind, by references from `first` on, and of a counter that knows them. */
export function records(kind, documents, first = 1) {
  const lines = documents.flatMap((document, at) => [
    { path: ['%Ref', first + at], value: kind },
    { path: [kind, first + at], document: { kind, ...document } },
  ]);
  return [{ path: ['%Kind', kind], value: true }, ...lines, { path: ['%Ref'], value: first + documents.length - 1 }];
}
