// Records by kind over HTTP, with WABuR's responses and with real statuses; runs under Node and Bun.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { HttpError } from '../dist/index.js';
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
        ['POST', '/v1/Article', article('All'), 400],
        ['PUT', '/v1/Article', { kind: 'Entry' }, 422],
        ['PUT', '/v1/Article', [], 422],
        ['PUT', '/v1/Article', { kind: 'Article', text: '\ud800' }, 400],
        ['GET', '/v1/Article?a..b=1', undefined, 400],
        ['GET', '/v1/Other', undefined, 404],
        ['GET', '/v1/Article/11/12', undefined, 404],
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

describe('rest, compat wabur', () => {
  it('tells errors as the reference does', async () => {
    const { ask, records } = app({ compat: 'wabur', kinds: { Article: true, Broken: { read: () => null.x } } });
    records.create(article('Sample'));
    for (const [method, path, body, error] of [
      ['PUT', '/v1/Article?title=Sample', article('Sample'), 'WAB::Error: error on Article create. Already exists.'],
      ['POST', '/v1/Article', article('All'), 'WAB::Error: update on all Article not allowed.'],
      ['GET', '/v1/Article?a..b=1', undefined, /^WAB::Error: error on Article read\. /],
      ['GET', '/v1/Article/list?A=a..b', undefined, /^WAB::Error: error on Article read\. /],
      ['POST', '/v1/Article?a..b=1', article('x'), /^WAB::Error: error on Article update\. /],
      ['DELETE', '/v1/Article?a..b=1', undefined, /^WAB::Error: error on Article delete\. /],
      ['PUT', '/v1/Article', [], 'WAB::Error: a record is a JSON object'],
      ['PATCH', '/v1/Article/1', {}, 'StandardError: PATCH is not a supported method'],
      ['GET', '/v1/Other', undefined, 'WAB::Error: no kind that is open here has this path'],
      ['GET', '/v1/Broken', undefined, 'StandardError: the handler failed'],
    ]) {
      const answer = await ask(method, path, body);
      const told = JSON.parse(answer.text);
      assert.deepEqual([answer.status, told.code], [500, -1], `${method} ${path}`);
      if (typeof error === 'string') assert.equal(told.error, error);
      else assert.match(told.error, error);
    }
  });

  it('takes what is no reference for one that no record has', async () => {
    const { ask, records } = app({ compat: 'wabur' });
    records.create(article('Sample'));
    for (const [method, body, text] of [
      ['GET', undefined, '{"code":0,"results":[]}'],
      ['POST', article('x'), '{"code":0,"updated":[]}'],
      ['DELETE', undefined, '{"code":0,"deleted":[]}'],
    ]) {
      const answer = await ask(method, '/v1/Article/x', body);
      assert.deepEqual([answer.status, answer.text], [200, text], method);
    }
  });
});

describe('rest', () => {
  it('refuses a reference where none belongs, and what is none', async () => {
    const { ask } = app();
    assert.equal((await ask('PUT', '/v1/Article/7', article('Sample'))).status, 405);
    for (const path of ['x', '01', '-1', '1.0', '99999999999999999999', '18446744073709551616']) {
      assert.equal((await ask('GET', `/v1/Article/${path}`)).status, 404, path);
    }
  });

  it('compares tags weakly to read, and strongly to write', async () => {
    const { ask } = app();
    await ask('PUT', '/v1/Article', article('Sample'));
    const etag = (await ask('GET', '/v1/Article/1')).headers.get('etag');
    const read = async (headers) => (await ask('GET', '/v1/Article/1', undefined, headers)).status;
    assert.equal(await read({ 'if-none-match': `"other", W/${etag}` }), 304);
    assert.equal(await read({ 'if-none-match': '*' }), 304);
    assert.equal(await read({ 'if-none-match': 'W/"other"' }), 200);
    assert.equal(await read({ 'if-match': etag }), 200);
    assert.equal(await read({ 'if-match': `W/${etag}` }), 412);
    const write = async (headers) => (await ask('POST', '/v1/Article/1', article('Sample'), headers)).status;
    assert.equal(await write({ 'if-match': `W/${etag}` }), 412);
    assert.equal(await write({ 'if-none-match': `W/${etag}` }), 412);
    assert.equal(await write({ 'if-none-match': '"other"', 'if-match': '*' }), 200);
    assert.equal(await write({ 'if-match': `"other", ${etag}` }), 200);
  });

  it('answers HEAD where it answers GET', async () => {
    const { ask } = app();
    await ask('PUT', '/v1/Article', article('Sample'));
    for (const path of ['/v1/Article', '/v1/Article/1', '/v1/Article/list?Title=title', '/v1/Article?title=Sample']) {
      const [got, head] = [await ask('GET', path), await ask('HEAD', path)];
      assert.deepEqual([head.status, [...head.headers]], [200, [...got.headers]], path);
    }
  });

  it('reads numbers of a query as the reference does', async () => {
    const { ask, records } = app();
    for (const num of [7, 0.5, -0.25, 1e3]) records.create(article('n', { num }));
    for (const [text, ref] of [['7', 1], ['007', 1], ['7.0', 1], ['.5', 2], ['0.5', 2], ['-.25', 3], ['1e3', 4], ['01E3', 4]]) {
      const { results } = JSON.parse((await ask('GET', `/v1/Article?num=${text}`)).text);
      assert.deepEqual(results.map(({ id }) => id), [ref], text);
    }
  });

  it('leaves a kind with its own way the usual one to call', async () => {
    const Article = {
      read(call) {
        return call.isList ? { list: call.path } : call.usual();
      },
      async create(call) {
        if (call.data.title === undefined) throw new HttpError(422, 'an article has a title');
        await null;
        return call.usual({ ...call.data, made: 'now' });
      },
      update: (call) => call.usual(),
      delete: (call) => (call.ref === 1 ? call.usual() : { kept: call.ref }),
    };
    const { ask, records } = app({ kinds: { Article } });
    assert.equal((await ask('PUT', '/v1/Article', {})).status, 422);
    const made = await ask('PUT', '/v1/Article', { title: 'Sample' });
    assert.deepEqual([made.status, made.text, made.headers.get('location')], [201, '{"code":0,"ref":1}', '/v1/Article/1']);
    assert.deepEqual(records.read(1), { kind: 'Article', title: 'Sample', made: 'now' });
    assert.equal((await ask('GET', '/v1/Article/1')).text, '{"code":0,"results":[{"id":1,"data":{"kind":"Article","made":"now","title":"Sample"}}]}');
    assert.equal((await ask('GET', '/v1/Article/list')).text, '{"list":["list"]}');
    assert.equal((await ask('PATCH', '/v1/Article/1', { made: null })).text, '{"code":0,"updated":[1]}');
    assert.equal((await ask('GET', '/v1/Article?title=Sample')).text, '{"code":0,"results":[{"id":1,"data":{"kind":"Article","title":"Sample"}}]}');
    assert.equal((await ask('DELETE', '/v1/Article/2')).text, '{"kept":2}');
    assert.equal((await ask('DELETE', '/v1/Article/1')).text, '{"code":0,"deleted":[1]}');
    assert.equal((await ask('DELETE', '/v1/Article/1')).status, 404);
  });

  it('hands everything else of a kind to its fallback', async () => {
    const kinds = {
      Article: { read: true, handle: ({ request, kind, path }) => ({ method: request.method, kind, path }) },
      Closed: { handle: (call) => call.usual() },
    };
    const { ask, records } = app({ kinds });
    records.create(article('Sample'));
    assert.equal((await ask('GET', '/v1/Article/1')).status, 200);
    for (const [method, path, body, rest] of [
      ['GET', '/1/comments%2Fx/7', undefined, ['1', 'comments/x', '7']],
      ['GET', '/x', undefined, ['x']],
      ['PUT', '', {}, []],
      ['REPORT', '/1', undefined, ['1']],
      ['DELETE', '/1', undefined, ['1']],
    ]) {
      const answer = await ask(method, `/v1/Article${path}`, body);
      assert.deepEqual(JSON.parse(answer.text), { method, kind: 'Article', path: rest });
    }
    // It does not allow anything that was not allowed.
    assert.equal((await ask('REPORT', '/v1/Closed')).status, 405);
  });

  it('answers kinds that it does not name where others are open', async () => {
    const { ask } = app({ kinds: { Article: {} }, others: { read: true, create: true } });
    assert.equal((await ask('PUT', '/v1/Note', { n: 1 })).status, 201);
    assert.equal((await ask('GET', '/v1/Note/1')).text, '{"code":0,"results":[{"id":1,"data":{"kind":"Note","n":1}}]}');
    assert.equal((await ask('DELETE', '/v1/Note/1')).status, 405);
    assert.equal((await ask('GET', '/v1/Article')).status, 405);
    assert.equal((await ask('PUT', '/v1/no%20kind', {})).status, 422);
  });

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
    await ask('PUT', '/v1/Article', {});
    await ask('PUT', '/v1/Article', { by: 'you' });
    assert.deepEqual(records.tql('WHERE EQ(meta.kind "Article") SELECT $').results, [{ meta: { by: 'me', kind: 'Article' } }, { meta: { kind: 'Article' } }, { by: 'you', meta: { kind: 'Article' } }]);
    assert.equal((await ask('PUT', '/v1/Article', { meta: 'x' })).status, 422);
  });
});
