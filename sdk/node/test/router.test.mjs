// How the router chooses a handler; runs under Node and Bun.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { router } from '../dist/index.js';
import { testing } from '../dist/testing.js';

/** A router whose handlers answer with the matched pattern and its parameters. */
function tellTale(...routes) {
  const app = router();
  for (const route of routes) {
    const [, method, path] = /^(\w+) (.*)$/.exec(route);
    app[method](path, ({ params }) => ({ route, ...params }));
  }
  return testing(app);
}

describe('the router', () => {
  it('answers all below a path of literals, whatever follows', async () => {
    const app = tellTale('all /e1/*', 'get /e1', 'get /v1/*rest', 'get /v1/:id/edit', 'post /deep/er/*path');
    for (const [method, path, expected] of [
      ['GET', '/e1/Article/11', { route: 'all /e1/*', '*': 'Article/11' }],
      ['DELETE', '/e1/x', { route: 'all /e1/*', '*': 'x' }],
      ['GET', '/e1/', { route: 'all /e1/*', '*': '' }],
      ['GET', '/e1/a%2Fb/%C3%A9', { route: 'all /e1/*', '*': 'a/b/é' }],
      ['GET', '/%65%31/x', { route: 'all /e1/*', '*': 'x' }],
      ['GET', '/e1', { route: 'get /e1' }],
      ['GET', '/v1/7/edit', { route: 'get /v1/:id/edit', id: '7' }],
      ['GET', '/v1/7/view', { route: 'get /v1/*rest', rest: '7/view' }],
      ['POST', '/deep/er/a/b', { route: 'post /deep/er/*path', path: 'a/b' }],
    ]) {
      const answer = await app[method.toLowerCase()](path);
      assert.deepEqual(await answer.json(), expected, `${method} ${path}`);
    }
    assert.equal((await app.get('/deep/er/a')).status, 405);
    assert.equal((await app.get('/e2/x')).status, 404);
    assert.equal((await app.get('/e1/%zz')).status, 400);
  });

  it('prefers literals to parameters to the rest, segment by segment, in whatever order they were added', async () => {
    const routes = ['get /*', 'get /users/*rest', 'get /users/:id', 'get /users/me', 'get /:kind/me', 'get /:kind/:id/edit', 'get /'];
    for (const order of [routes, routes.toReversed()]) {
      const app = tellTale(...order);
      for (const [path, expected] of [
        ['/', { route: 'get /' }],
        ['/users/me', { route: 'get /users/me' }],
        ['/users/7', { route: 'get /users/:id', id: '7' }],
        ['/users/7/edit', { route: 'get /users/*rest', rest: '7/edit' }],
        ['/things/me', { route: 'get /:kind/me', kind: 'things' }],
        ['/things/7/edit', { route: 'get /:kind/:id/edit', kind: 'things', id: '7' }],
        ['/things/7/view', { route: 'get /*', '*': 'things/7/view' }],
        ['/users/', { route: 'get /users/*rest', rest: '' }],
        ['/users', { route: 'get /*', '*': 'users' }],
        ['/users/me/', { route: 'get /users/*rest', rest: 'me/' }],
      ]) {
        assert.deepEqual(await (await app.get(path)).json(), expected, path);
      }
    }
  });

  it('takes a path whose literals are in its tables where it takes the same path written with escapes', async () => {
    const segments = ['a', 'b', ':x'];
    const patterns = ['/', '/*', ...segments.flatMap((one) => [`/${one}`, `/${one}/*`, `/${one}/b/*`, ...segments.map((two) => `/${one}/${two.replace('x', 'y')}`)])];
    const paths = ['/a', '/b', '/c', '/a/', '/a/a', '/a/b', '/a/c', '/b/a', '/c/b', '/a/b/', '/a/b/c', '/a/c/b', '/a//b', '/c/b/a/b'];
    let seed = 1;
    const random = (below) => (seed = (seed * 48271) % 2147483647) % below;
    for (let round = 0; round < 200; round += 1) {
      const routes = new Set();
      for (let count = 1 + random(6); count > 0; count -= 1) routes.add(`${['get', 'put', 'all'][random(3)]} ${patterns[random(patterns.length)]}`);
      const app = tellTale(...routes);
      for (const path of paths) {
        for (const method of ['get', 'put']) {
          const told = async (asked) => {
            const answer = await app[method](asked);
            return [answer.status, answer.status === 200 ? await answer.json() : undefined];
          };
          const escaped = path.replaceAll(/[a-c]/g, (letter) => `%${letter.charCodeAt(0).toString(16)}`);
          assert.deepEqual(await told(path), await told(escaped), `${method} ${path} of ${[...routes].join(', ')}`);
        }
      }
    }
  });

  it('compares percent-decoded segments, and keeps an encoded slash inside its segment', async () => {
    const app = tellTale('get /café/:name', 'get /a b', 'get /x/*rest');
    assert.deepEqual(await (await app.get('/caf%C3%A9/J%c3%bcrgen')).json(), { route: 'get /café/:name', name: 'Jürgen' });
    assert.deepEqual(await (await app.get('/caf%C3%A9/a%2Fb')).json(), { route: 'get /café/:name', name: 'a/b' });
    assert.deepEqual(await (await app.get('/%61%20b')).json(), { route: 'get /a b' });
    assert.equal((await tellTale('get /é').get('/é')).status, 200);
    // The same bytes decoded as Latin-1.
    assert.equal((await tellTale('get /Ã©').get('/é')).status, 404);
    assert.equal((await app.get('/x/%zz')).status, 400);
    assert.equal((await app.get('/x/%ff')).status, 400);
  });

  it('does not let a path that lacks the method hide one that has it', async () => {
    const app = tellTale('get /users/me', 'post /users/:id', 'all /users/*');
    assert.equal((await (await app.post('/users/me')).json()).route, 'post /users/:id');
    assert.equal((await (await app.put('/users/me')).json()).route, 'all /users/*');
  });

  it('answers 404, and 405 with the methods that are there', async () => {
    const app = tellTale('get /a', 'delete /a', 'post /:x');
    assert.equal((await app.get('/b/c')).status, 404);
    const refused = await app.put('/a');
    assert.equal(refused.status, 405);
    assert.equal(refused.headers.get('allow'), 'DELETE, GET, HEAD, POST');
    assert.equal((await app.options('/a')).status, 405);
  });

  it('falls back from HEAD to GET, then to all', async () => {
    const app = router();
    const seen = [];
    app.get('/a', () => void seen.push('get'));
    app.head('/b', () => void seen.push('head')).get('/b', () => void seen.push('get'));
    app.all('/c', ({ method }) => void seen.push(method));
    for (const path of ['/a', '/b', '/c']) await testing(app).head(path);
    await testing(app).request('PURGE', '/c');
    assert.deepEqual(seen, ['get', 'head', 'HEAD', 'PURGE']);
  });

  it('prefers a method of its own to all, in whatever order they were added', async () => {
    for (const routes of [['all /a', 'get /a'], ['get /a', 'all /a']]) {
      const app = tellTale(...routes);
      assert.equal((await (await app.get('/a')).json()).route, 'get /a');
      assert.equal((await (await app.post('/a')).json()).route, 'all /a');
    }
  });

  for (const [path, message] of [
    ['users', /must start with \//],
    ['/a//b', /empty segment/],
    ['/:', /needs a name/],
    ['/:1a', /needs a name/],
    ['/:a-b', /needs a name/],
    ['/*a/b', /only at the start of the last segment/],
    ['/a*', /only at the start of the last segment/],
    ['/a/../b', /segment \.\. are refused/],
    ['/a%20b', /write it decoded/],
    ['/a?b', /write it decoded/],
    ['/:a/:a', /parameter a appears twice/],
  ]) {
    it(`refuses the pattern ${path}`, () => assert.throws(() => router().get(path, () => 1), message));
  }

  it('refuses a second handler for the same method and path', () => {
    assert.throws(() => router().get('/a', () => 1).get('/a', () => 2), /GET \/a is there already/);
    assert.throws(() => router().get('/:a', () => 1).get('/:b', () => 2), /GET \/:b is there already as \/:a/);
    assert.throws(() => router().get('/a', 5), /not a function/);
  });
});
