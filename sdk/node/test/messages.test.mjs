// One module of message handlers, in a pool of the library and called by requests.
import assert from 'node:assert/strict';
import { after, describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { Pool } from '../dist/pool/index.js';
import { testing } from '../dist/testing.js';
import * as jobs from './handlers/jobs.mjs';

const file = fileURLToPath(new URL('handlers/jobs.mjs', import.meta.url));

for (const kind of ['process', 'thread']) {
  describe(`a module of messages in a ${kind}`, () => {
    const pool = new Pool({ handler: file, kind, size: { max: 1 } });
    after(() => pool.close());

    it('answers by type, after its hook', async () => {
      assert.equal(await pool.run({ a: 1, b: 2 }, { type: 'add' }), 3);
      assert.equal(await pool.run(undefined, { type: 'started' }), 1);
      assert.equal(await pool.run({ a: 1n, b: 2n }, { type: 'add' }), 3n);
      const parts = [];
      const reply = await pool.run(2, { type: 'parts', onPart: (part) => parts.push(part) });
      assert.deepEqual([parts, reply], [[{ part: 0 }, { part: 1 }], new Date(0)]);
    });

    it('says what it threw and which types there are', async () => {
      const error = await pool.run(1, { type: 'throws' }).catch((thrown) => thrown);
      assert.deepEqual([error.name, error.code, error.message, error.thrown.name, error.thrown.members], ['HandlerError', 'handler_error', 'too far', 'RangeError', { code: 'E_FAR' }]);
      assert.match(error.stack, /jobs\.mjs/);
      await assert.rejects(pool.run(1, { type: 'other' }), /no handler for messages of type "other"; there are add, started, parts, throws/);
    });
  });
}

describe('a module of messages behind requests', () => {
  it('answers in JSON, and a Date is text there', async () => {
    const app = testing(jobs);
    assert.equal(await (await app.post('/jobs/add', { json: { a: 1, b: 2 } })).json(), 3);
    const parts = await app.post('/parts', { json: 1 });
    assert.deepEqual([parts.headers.get('content-type'), await parts.text()], ['application/x-ndjson', '{"part":{"part":0}}\n{"reply":"1970-01-01T00:00:00.000Z"}\n']);
  });

  it('says nothing of what it threw', async () => {
    const response = await testing(jobs).post('/throws', { json: 1 });
    assert.equal(response.status, 500);
    assert.doesNotMatch(await response.text(), /far/i);
  });

  it('takes POST alone, of types that there are', async () => {
    const app = testing(jobs);
    const get = await app.get('/add');
    assert.deepEqual([get.status, get.headers.get('allow')], [405, 'POST']);
    assert.equal((await app.post('/other', { json: 1 })).status, 404);
    assert.equal((await app.post('/add', { body: '{' })).status, 400);
  });
});
