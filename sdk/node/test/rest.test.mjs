// Records by kind over HTTP, as WABuR has them and with truthful statuses; runs under Node and Bun.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Records, rest } from '../dist/records/index.js';
import { testing } from '../dist/testing.js';
import { freshStore } from './stores.mjs';

function app(options = {}) {
  const records = new Records(freshStore());
  const tested = testing(rest({ kinds: { Article: true, Entry: true }, records, ...options }));
  const ask = async (method, path, body, headers = {}) => {
    const answer = await tested.request(method, path, body === undefined ? { headers } : { json: body, headers });
    return { status: answer.status, text: await answer.text(), headers: answer.headers };
  };
  return { ask, records };
}

const article = (title, more = {}) => ({ kind: 'Article', title, ...more });

for (const compat of ['none', 'wabur']) {
  const isWabur = compat === 'wabur';
  describe(`rest, compat ${compat}`, () => {
    it('answers with the bodies of the reference', async () => {
      const { ask } = app({ compat });
      for (const [method, path, body, status, text] of [
        ['PUT', '/v1/Article', article('Sample', { num: 1 }), isWabur ? 200 : 201, '{"code":0,"ref":1}'],
        ['PUT', '/v1/Article?title=X', article('X', { num: 3 }), isWabur ? 200 : 201, '{"code":0,"ref":2}'],
        ['PUT', '/v1/Article', article('3', { num: 3.5 }), isWabur ? 200 : 201, '{"code":0,"ref":3}'],
        ['PUT', '/v1/Entry', { title: 'X' }, isWabur ? 200 : 201, '{"code":0,"ref":4}'],
        ['GET', '/v1/Article/1', undefined, 200, '{"code":0,"results":[{"id":1,"data":{"kind":"Article","num":1,"title":"Sample"}}]}'],
        ['GET', '/v1/Article?num=3', undefined, 200, '{"code":0,"results":[{"id":2,"data":{"kind":"Article","num":3,"title":"X"}}]}'],
        ['GET', '/v1/Article?num=3.5', undefined, 200, '{"code":0,"results":[{"id":3,"data":{"kind":"Article","num":3.5,"title":"3"}}]}'],
        ['GET', '/v1/Article?title=3', undefined, 200, '{"code":0,"results":[]}'],
        ['GET', "/v1/Article?title='3", undefined, 200, '{"code":0,"results":[{"id":3,"data":{"kind":"Article","num":3.5,"title":"3"}}]}'],
        ['GET', '/v1/Article/list?Title=title', undefined, 200, '{"code":0,"results":[{"ref":1,"Title":"Sample"},{"ref":2,"Title":"X"},{"ref":3,"Title":"3"}]}'],
        ['GET', '/v1/Entry', undefined, 200, '{"code":0,"results":[{"id":4,"data":{"kind":"Entry","title":"X"}}]}'],
        ['POST', '/v1/Article/1', article('New'), 200, '{"code":0,"updated":[1]}'],
        ['POST', '/v1/Article?title=X', article('Y'), 200, '{"code":0,"updated":[2]}'],
        ['POST', '/v1/Article?title=Missing', article('Y'), 200, '{"code":0,"updated":[]}'],
        ['DELETE', '/v1/Article/1', undefined, 200, '{"code":0,"deleted":[1]}'],
        ['DELETE', '/v1/Article?title=Missing', undefined, 200, '{"code":0,"deleted":[]}'],
        ['DELETE', '/v1/Article?title=Y', undefined, 200, '{"code":0,"deleted":[2]}'],
        ['DELETE', '/v1/Article', undefined, 200, '{"code":0,"deleted":[3]}'],
        ['GET', '/v1/Article', undefined, 200, '{"code":0,"results":[]}'],
      ]) {
        const answer = await ask(method, path, body);
        assert.deepEqual([answer.status, answer.text], [status, text], `${method} ${path}`);
        assert.equal(answer.headers.get('content-type'), 'application/json');
      }
    });

    it('reaches a record only by its kind', async () => {
      const { ask, records } = app({ compat });
      const ref = records.create(article('Kept'));
      for (const [method, body, nothing] of [
        ['GET', undefined, '{"code":0,"results":[]}'],
        ['POST', { kind: 'Entry' }, '{"code":0,"updated":[]}'],
        ['DELETE', undefined, '{"code":0,"deleted":[]}'],
      ]) {
        const answer = await ask(method, `/v1/Entry/${ref}`, body);
        if (isWabur) assert.deepEqual([answer.status, answer.text], [200, nothing], method);
        else assert.equal(answer.status, 404, method);
      }
      assert.deepEqual(records.read(ref), article('Kept'));
    });

    it('refuses what makes no sense', async () => {
      const { ask, records } = app({ compat });
      records.create(article('Sample'));
      for (const [method, path, body, status] of [
        ['PUT', '/v1/Article?title=Sample', article('Sample'), 409],
        ['PUT', '/v1/Article/7', article('Sample'), 405],
        ['POST', '/v1/Article', article('All'), 400],
        ['PUT', '/v1/Article', { kind: 'Entry' }, 422],
        ['PUT', '/v1/Article', [], 422],
        ['GET', '/v1/Article?a..b=1', undefined, 400],
        ['GET', '/v1/Other', undefined, 404],
        ['GET', '/v1/Article/11/12', undefined, 404],
        ['GET', '/v1/Article/x', undefined, 404],
        ['GET', '/v2/Article', undefined, 404],
        ['TRACK', '/v1/Article', undefined, 405],
      ]) {
        const answer = await ask(method, path, body);
        assert.equal(answer.status, isWabur ? 500 : status, `${method} ${path}: ${answer.text}`);
        if (isWabur) assert.equal(JSON.parse(answer.text).code, -1);
      }
      assert.equal(records.list('Article').length, 1);
    });
  });
}

describe('rest', () => {
  it('says where a new record is, and knows tags', async () => {
    const { ask } = app();
    const made = await ask('PUT', '/v1/Article', article('Sample'));
    assert.equal(made.headers.get('location'), '/v1/Article/1');
    const etag = (await ask('GET', '/v1/Article/1')).headers.get('etag');
    assert.equal((await ask('GET', '/v1/Article/1', undefined, { 'if-none-match': etag })).status, 304);
    assert.equal((await ask('PATCH', '/v1/Article/1', { title: 'Other' }, { 'if-match': etag })).status, 200);
    assert.equal((await ask('PATCH', '/v1/Article/1', { kind: 'User' })).status, 422);
    assert.equal((await ask('PATCH', '/v1/Article/1', { kind: null })).status, 422);
    assert.equal((await ask('PATCH', '/v1/Article/1', { title: 'Lost' }, { 'if-match': etag })).status, 412);
    assert.equal((await ask('DELETE', '/v1/Article/1', undefined, { 'if-match': etag })).status, 412);
    assert.equal((await ask('GET', '/v1/Article?title=Other')).text, '{"code":0,"results":[{"id":1,"data":{"kind":"Article","title":"Other"}}]}');
  });

  it('opens methods of a kind one by one, and lets a kind do them in its own way', async () => {
    const seen = [];
    const { ask, records } = app({
      prefix: '/api/records',
      kinds: {
        Article: { read: true, create: ({ kind, data, query }) => (seen.push([kind, data, query]), { made: true }) },
      },
    });
    records.create(article('Sample'));
    assert.equal((await ask('GET', '/api/records/Article/1')).status, 200);
    assert.equal((await ask('PUT', '/api/records/Article?a=1', { n: 1 })).text, '{"made":true}');
    assert.deepEqual(seen, [['Article', { n: 1 }, [['a', '1']]]]);
    const closed = await ask('DELETE', '/api/records/Article/1');
    assert.deepEqual([closed.status, closed.headers.get('allow')], [405, 'GET, HEAD, PUT']);
  });

  it('follows another type key', async () => {
    const { ask, records } = app({ typeKey: 'meta.kind' });
    const made = await ask('PUT', '/v1/Article', { meta: { by: 'me' } });
    assert.equal(made.status, 201);
    assert.deepEqual(records.tql('WHERE EQ(meta.kind "Article") SELECT meta.by').results, ['me']);
  });
});
