// The SDK on standard input and output, with this test in the role of the server.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { openSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import * as source from '../dist/source.js';
import { jsonl } from '../dist/stdio/jsonl.js';

const read = (name) => JSON.parse(readFileSync(new URL(`../../../protocol/vectors/messages/${name}.json`, import.meta.url), 'utf8'));
const bun = fileURLToPath(new URL('../node_modules/.bin/bun', import.meta.url));

/** A child process and its output. */
class Child {
  #lines = [];
  #wake = () => {};
  #rest = '';
  errors = '';

  constructor(program, file, env) {
    const all = { FOREBAY_GENERATION: '1', FOREBAY_POOL: 'test', FOREBAY_WORKER: '1', FOREBAY_CONCURRENCY: '8', FOREBAY_MESSAGE_BYTES_MAX: '1000000' };
    this.process = spawn(program, [fileURLToPath(new URL(`handlers/${file}`, import.meta.url))], { env: { ...process.env, ...all, ...env } });
    this.ended = new Promise((resolve) => this.process.on('close', resolve));
    this.process.stderr.on('data', (bytes) => (this.errors += bytes));
    this.process.stdout.setEncoding('utf8').on('data', (text) => {
      const lines = (this.#rest + text).split('\n');
      this.#rest = lines.pop();
      this.#lines.push(...lines);
      this.#wake();
    });
  }

  send(message) {
    this.process.stdin.write(typeof message === 'string' ? message : `${JSON.stringify(message)}\n`);
  }

  async line() {
    while (this.#lines.length === 0) await new Promise((resolve) => (this.#wake = resolve));
    return this.#lines.shift();
  }

  async next() {
    return JSON.parse(await this.line());
  }

  async end() {
    this.process.stdin.end();
    assert.equal(await this.ended, 0, this.errors);
  }
}

for (const [runtime, program] of [['node', process.execPath], ['bun', bun]]) {
  describe(`a default controller of WABuR in ${runtime}`, () => {
    for (const { name, exchanges } of read('wabur').scripts) {
      it(name, async () => {
        const child = new Child(program, 'default-controller.mjs', { FOREBAY_PROTOCOL: 'wabur' });
        for (const { send, expect } of exchanges) {
          if (send !== null) child.send(send);
          assert.deepEqual(await child.next(), expect, child.errors);
        }
        child.send({ api: -15 });
        assert.equal(await child.ended, 0, child.errors);
      });
    }
  });

  describe(`a handler on standard input and output in ${runtime}`, () => {
    const request = (id, method, path, body = '') => ({
      id, method, path, query: 'a=1', route: '/*', peer: '10.0.0.1', request_id: `r-${id}`, remaining_ms: 5000, params: {}, headers: [['content-type', 'application/json']], body,
    });
    const start = () => new Child(program, 'stdio.mjs', { FOREBAY_PROTOCOL: 'jsonl' });

    it('answers lines, several at a time and in any order', async () => {
      const child = start();
      child.send([1, 2, 3].map((id) => `${JSON.stringify(request(id, 'GET', id === 1 ? '/late' : '/quick'))}\n`).join(''));
      const answers = [await child.line(), await child.line(), await child.line()];
      assert.deepEqual(answers.sort(), ['{"id":1,"json":{"late":true}}', '{"id":2,"body":"quick"}', '{"id":3,"body":"quick"}']);
      await child.end();
    });

    it('answers one request after thousands', async () => {
      const child = new Child(program, 'stdio.mjs', { FOREBAY_PROTOCOL: 'jsonl', FOREBAY_CONCURRENCY: '1' });
      const count = 5_000;
      child.send(Array.from({ length: count }, (_, id) => `${JSON.stringify(request(id, 'GET', '/quick'))}\n`).join(''));
      for (let id = 0; id < count; id++) assert.equal((await child.next()).id, id);
      await child.end();
    });

    it('keeps standard output to itself', async () => {
      const child = start();
      child.send(request(1, 'GET', '/print'));
      assert.equal(await child.line(), '{"id":1,"body":"printed"}');
      await child.end();
      for (const text of ['by the console', 'by the stream']) assert.match(child.errors, new RegExp(text));
    });

    it('sends every kind of answer', async () => {
      const child = start();
      for (const [path, line] of [
        ['/none', '{"id":1,"status":204}'],
        ['/bytes', '{"id":1,"body_base64":"/wA="}'],
        ['/html', '{"id":1,"headers":[["content-type","text/html; charset=utf-8"]],"body":"<p>"}'],
        ['/pieces', '{"id":1,"headers":[["content-type","text/plain"]],"body":"one two"}'],
        ['/created', '{"id":1,"status":201,"headers":[["x-a","1"]],"json":{"a":"1"}}'],
      ]) {
        child.send(request(1, 'GET', path));
        assert.equal(await child.line(), line);
      }
      child.send(request(1, 'GET', '/throw'));
      const failed = await child.next();
      assert.equal(failed.status, 500);
      assert.match(failed.headers[0][1], /problem\+json/);
      child.send(request(1, 'GET', '/endless'));
      assert.deepEqual(await child.next(), { id: 1, status: 500, body: 'the response has more than 1000000 bytes (message_bytes_max)' });
      child.send(request(1, 'GET', '/breaks'));
      assert.deepEqual(await child.next(), { id: 1, status: 500, body: 'the response broke off' });
      await child.end();
    });

    it('reads bodies of any length', async () => {
      const child = start();
      for (const length of [0, 1, 65_535, 65_536, 65_537, 3_000_000]) {
        child.send(request(length + 1, 'POST', '/length', 'x'.repeat(length)));
        assert.deepEqual(await child.next(), { id: length + 1, json: { length } });
      }
      await child.end();
    });

    it('asks the server in the middle of a request, while others come', async () => {
      const child = start();
      child.send(request(1, 'GET', '/ask'));
      assert.deepEqual(await child.next(), { call: 1, tql: { where: 1 } });
      // The second request arrives in two pieces, before the result.
      const second = JSON.stringify(request(2, 'GET', '/quick'));
      child.send(`${second.slice(0, 30)}`);
      child.send(`${second.slice(30)}\n{"call":1,"result":{"code":0,"results":[7]}}\n${JSON.stringify(request(3, 'GET', '/ask'))}\n`);
      assert.deepEqual(await child.next(), { id: 1, json: { code: 0, results: [7] } });
      assert.deepEqual(await child.next(), { id: 2, body: 'quick' });
      assert.deepEqual(await child.next(), { call: 2, tql: { where: 1 } });
      child.send({ call: 2, result: { code: 0 } });
      assert.deepEqual(await child.next(), { id: 3, json: { code: 0 } });
      await child.end();
    });

    it('has records from the server where it has no store', async () => {
      const child = new Child(program, 'rest-served.mjs', { FOREBAY_PROTOCOL: 'jsonl' });
      const plain = { ...request(1, 'GET', '/v1/Article/7'), query: '' };
      child.send(plain);
      assert.equal(await child.line(), '{"call":1,"tql":{"record":7,"kind":"Article"}}');
      const tag = '0123456789abcdef'.repeat(2);
      child.send(`{"call":1,"result":{"code":0,"tag":"${tag}","results":[{"n":1.0}]}}\n`);
      assert.equal(await child.line(), `{"id":1,"headers":[["etag","\\"${tag}\\""]],"json":{"code":0,"results":[{"id":7,"data":{"n":1.0}}]}}`);
      child.send({ ...plain, id: 2, method: 'POST', headers: [['if-match', `"other", W/"${tag}", "${tag}"`]], body: '{"n":2.0}' });
      assert.equal(await child.line(), `{"call":2,"tql":{"record":7,"kind":"Article","match":"\\"${tag}\\"","update":{"kind":"Article","n":2.0}}}`);
      child.send({ call: 2, result: { code: -1, error: 'no', reason: 'precondition' } });
      assert.equal((await child.next()).status, 412);
      child.send({ ...plain, id: 3, path: '/v1/Article' });
      assert.equal(await child.line(), '{"call":3,"tql":{"where":["EQ","kind","\'Article"],"select":{"id":"$ref","data":"$"}}}');
      child.send({ call: 3, result: { code: -1, error: 'wrong', reason: 'tql_meaning' } });
      assert.equal((await child.next()).status, 422);
      child.send({ ...plain, id: 4, method: 'DELETE' });
      assert.equal(await child.line(), '{"call":4,"tql":{"record":7,"kind":"Article","delete":null}}');
      child.send({ call: 4, result: { code: -1, error: 'the server is busy' } });
      const refused = await child.next();
      assert.deepEqual([refused.status, JSON.parse(refused.body ?? JSON.stringify(refused.json)).detail], [503, 'the server is busy']);
      await child.end();
    });

    it('logs with level, fields and request', async () => {
      const child = start();
      child.send(request(1, 'GET', '/log'));
      assert.deepEqual(await child.next(), { log: { level: 'warn', message: 'low', fields: { at: 7 }, request: 'r-1' } });
      assert.deepEqual(await child.next(), { id: 1, body: 'logged' });
      await child.end();
    });

    it('finishes what it has when its input ends, and runs its stop hook', async () => {
      const child = start();
      child.send(request(1, 'GET', '/late'));
      child.process.stdin.end();
      assert.deepEqual(await child.next(), { id: 1, json: { late: true } });
      assert.equal(await child.ended, 0);
      assert.match(child.errors, /stopped/);
    });
  });
}

describe('the vectors of lines', () => {
  const { requests, answers } = read('jsonl');
  const bytes = ({ body, body_hex }) => (body_hex === undefined ? Buffer.from(body) : Buffer.from(body_hex, 'hex'));

  it('are read', () => {
    for (const { request, line } of requests) {
      const { is, id, request: message } = jsonl.read(line, JSON.stringify(line));
      assert.deepEqual({ is, id }, { is: 'request', id: 7 });
      const from = source.messageSource(message);
      const part = (index) => source.part(from, index);
      const read = {
        remaining_ms: source.remainingMs(from),
        method: source.methodAndPath(from).slice(0, source.methodLength(from)),
        path: part(source.PATH),
        query: part(source.QUERY),
        route: part(source.ROUTE),
        params: source.pairs(from, source.PARAMS),
        headers: source.pairs(from, source.HEADERS),
        peer: part(source.PEER),
        id: part(source.ID),
        ...(source.user(from) && { identity: JSON.stringify(source.user(from)) }),
        body_hex: Buffer.from(source.bodyBytes(from)).toString('hex'),
      };
      assert.deepEqual(read, { ...request, params: request.params.flat(), headers: request.headers.flat() });
      for (const [name] of request.headers) {
        const values = request.headers.filter(([other]) => other === name).map(([, value]) => value);
        assert.deepEqual(source.fieldValues(from, name), values);
      }
      assert.equal(source.hasBody(from), request.body_hex !== '');
      assert.equal(source.bodyText(from), Buffer.from(request.body_hex, 'hex').toString('utf8'));
    }
  });

  it('have the path of a router, whose keys are Latin-1, where it is not ASCII', () => {
    const from = source.messageSource({ method: 'GET', path: '/\u00e9\u20ac' });
    assert.equal(source.methodAndPath(from), Buffer.from('GET/\u00e9\u20ac').toString('latin1'));
  });

  it('are written', () => {
    for (const { answer, line } of answers) {
      const outcome = { status: answer.status, kind: answer.content, headers: answer.headers.flat(), body: bytes(answer) };
      assert.equal(jsonl.answer(7, outcome), `${line}\n`);
    }
  });
});

it('says what is missing when it is started by hand', async () => {
  const child = new Child(process.execPath, 'stdio.mjs', {});
  assert.equal(await child.ended, 1);
  assert.match(child.errors, /FOREBAY_PROTOCOL is not set: this program is started by `forebay serve`/);
});

it('waits for a pipe without spinning', () => {
  const { waitReadable } = createRequire(import.meta.url)('../dist/forebay.node');
  const file = fileURLToPath(import.meta.url);
  assert.equal(waitReadable(openSync(file, 'r'), 1000), true);
  assert.throws(() => waitReadable('x', 1), /takes two numbers/);
});
