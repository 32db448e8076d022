// The service as its clients use it: releases are made, tested, published and taken back while the server decides.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { serve } from 'forebay/testing';

const cwd = fileURLToPath(new URL('..', import.meta.url));
const STATE = mkdtempSync(join(tmpdir(), 'decisions-'));
const env = { STATE, SHOP_TOKEN: 'shop', EDITOR_TOKEN: 'editor' };
const order = { order: 'B-1', amount: 10_000, reason: 'changed-mind', delivered: '2026-05-01', requested: '2026-05-21' };
let server;

const forebay = (...args) => execFileSync('forebay', ['workflow', ...args], { cwd, env: { ...process.env, ...env }, encoding: 'utf8', stdio: 'pipe' });

before(async () => {
  server = await serve([], { cwd, env });
});

after(async () => {
  await server?.stop();
  rmSync(STATE, { recursive: true });
});

async function ask(token, method, path, body, headers) {
  const response = await fetch(`${server.url}${path}`, { method, body: body && JSON.stringify(body), headers: { authorization: `Bearer ${token}`, ...headers } });
  return { status: response.status, release: response.headers.get('workflow-release'), body: await response.json() };
}

const decide = (args, { query = '', headers } = {}) => ask('shop', 'POST', `/decide/refund${query}`, args, headers);

test('nothing is decided until a release is published, which its tests have to allow', async () => {
  assert.equal((await decide(order)).status, 404);
  forebay('import', 'workflows', '--note', 'the first terms');
  assert.match(forebay('test', '--release', '1'), /7 of 7 hold/);
  forebay('publish', '1');
  assert.equal((await decide(order)).status, 200);
});

test('refunds are decided by the table, and reviews are kept', async () => {
  const paid = await decide(order);
  assert.deepEqual([paid.release, paid.body], ['1', { state: true, valueMap: { outcome: 'pay', refund: 9000, because: 'within 30 days, less a fee' } }]);
  const review = await decide({ ...order, reason: 'damaged', amount: 50_000 });
  assert.equal(review.body.valueMap.outcome, 'review');
  const kept = execFileSync('forebay', ['store', 'get', 'Review/B-1', '--data', join(STATE, 'data')], { encoding: 'utf8' });
  assert.equal(JSON.parse(kept).amount, 50_000);
});

test('a decision explains itself', async () => {
  const { body } = await decide(order, { query: '?trace' });
  assert.deepEqual(body.trace.map(({ name }) => name).filter(Boolean), ['facts of the order', 'terms', 'pay, review or refuse', 'pay']);
  assert.equal(body.trace.find(({ name }) => name === 'terms').output.valueMap.because, 'within 30 days, less a fee');
  assert.match(forebay('trace', 'refund', '--args', JSON.stringify(order)), /pay, review or refuse/);
});

test('a request that is repeated with its key is decided once', async () => {
  const headers = { 'idempotency-key': 'refund-of-B-1' };
  const first = await decide(order, { headers });
  assert.deepEqual((await decide(order, { headers })).body, first.body);
  assert.equal((await decide({ ...order, amount: 1 }, { headers })).status, 422);
});

test('what is not a refund, or comes from nobody, is refused', async () => {
  assert.equal((await decide({ ...order, reason: 'bored' })).status, 422);
  assert.equal((await ask('wrong', 'POST', '/decide/refund', order)).status, 401);
  assert.equal((await ask('shop', 'GET', '/releases')).status, 403);
});

test('new terms go to a share of the requests first, then to all, and back', async () => {
  const draft = mkdtempSync(join(tmpdir(), 'decisions-draft-'));
  cpSync(join(cwd, 'workflows'), draft, { recursive: true });
  const edit = (file, from, to) => {
    const path = join(draft, file);
    const text = readFileSync(path, 'utf8');
    assert.ok(text.includes(from));
    writeFileSync(path, text.replace(from, to));
  };
  edit('refund-terms.json', '"share": "0.9"', '"share": "0.8"');
  // The test of the old terms does not hold any more, so this cannot be published by mistake.
  forebay('import', draft, '--note', 'a fee of a fifth');
  assert.throws(() => forebay('publish', '2'), ({ status, stderr, stdout }) => status === 3 && /after two weeks/.test(stdout + stderr));
  edit('tests/refund.json', '4499', '3999');
  forebay('import', draft, '--note', 'a fee of a fifth, with its test');
  rmSync(draft, { recursive: true });
  assert.match(forebay('diff', '1', '3'), /refund-terms/);

  forebay('publish', '3', '--canary', '50%');
  const releases = async () => {
    const answers = await Promise.all(Array.from({ length: 30 }, (_, n) => decide(order, { headers: { 'x-request-id': `request-${n}` } })));
    for (const { release, body } of answers) assert.equal(body.valueMap.refund, release === '3' ? 8000 : 9000);
    return [...new Set(answers.map(({ release }) => release))].sort().join();
  };
  assert.equal(await releases(), '1,3');
  forebay('publish', '3');
  assert.equal(await releases(), '3');
  forebay('rollback');
  assert.equal(await releases(), '1');
});

test('an editor releases over HTTP', async () => {
  const { body: files } = await ask('editor', 'GET', '/releases/1/files');
  const made = await ask('editor', 'POST', '/releases', { files, note: 'from the editor' });
  assert.deepEqual([made.status, made.body.faults], [201, null]);
  const { body: tested } = await ask('editor', 'POST', `/releases/${made.body.release}/test`);
  assert.equal(tested.failed, 0);
  assert.equal((await ask('editor', 'POST', `/releases/${made.body.release}/publish`)).status, 200);
  const { body: { entries: [latest] } } = await ask('editor', 'GET', '/releases/log?count=1');
  assert.equal(latest.by, 'editor');
});
